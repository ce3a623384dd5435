//! The two pure decisions of a recovery: is the log complete, and how is it divided.

mod divide;
mod prove;
