//! Conversations of one session with a cluster that is played by the test: what is sent, what is answered, how it ends.

#[cfg(test)]
mod bricks;
#[cfg(test)]
mod commits;
mod coordinators;
#[cfg(test)]
mod endings;
#[cfg(test)]
mod fake;
#[cfg(test)]
mod hedges;
#[cfg(test)]
mod leases;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod own_puts;
#[cfg(test)]
mod packing;
#[cfg(test)]
mod pages;
#[cfg(test)]
mod quorum;
#[cfg(test)]
mod quorum_tables;
#[cfg(test)]
mod random;
#[cfg(test)]
mod reads;
mod routing;
#[cfg(test)]
mod searching;
#[cfg(test)]
mod settling;
#[cfg(test)]
mod stale;
#[cfg(test)]
mod thresholds;
mod updates;
#[cfg(test)]
mod windows;
