//! The register against random delays, outages, clocks and losses of power, and its schedules under their names.

mod clients;
mod clocks;
mod epochs;
mod expiry;
mod history;
mod model;
mod pages;
mod rebuilding;
mod runs;
mod schedules;
mod shelf;
