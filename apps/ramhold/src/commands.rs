//! The commands, one file each.

pub mod accept_loss;
pub mod acknowledge_loss;
pub mod bench;
pub mod brick;
pub mod bricks;
pub mod config;
pub mod coordinator;
pub mod demo;
pub mod dev;
pub mod events;
pub mod import;
pub mod object;
pub mod plan;
pub mod recoveries;
pub mod resume;
pub mod scan;
pub mod server;
pub mod status;
pub mod stop;
pub mod supervise;
pub mod table;
pub mod topology;
pub mod user;
pub mod verify;
