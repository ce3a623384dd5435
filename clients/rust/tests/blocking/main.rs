//! The blocking client against a played cluster, over real sockets.

#[cfg(test)]
mod client;
#[cfg(test)]
mod played;
#[cfg(test)]
mod quorum;
