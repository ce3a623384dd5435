//! The real binary, mostly against a played cluster: output, exit codes, errors.

#[cfg(test)]
mod asking;
#[cfg(test)]
mod bench_cluster;
#[cfg(test)]
mod bench_kv;
mod bench_log;
#[cfg(test)]
mod binary;
#[cfg(test)]
mod config;
#[cfg(test)]
mod expiry;
#[cfg(test)]
mod files;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod planning;
#[cfg(test)]
mod processor;
#[cfg(test)]
mod redis;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod users;
// The tests of the client library use the same played cluster.
#[cfg(test)]
#[path = "../../../../clients/rust/tests/blocking/played.rs"]
mod played;
