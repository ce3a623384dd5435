//! Limits of accounts. They bound what an account takes in the coordinator's state and in every server.

/// Bytes of an account's name.
pub const NAME_BYTES_MAX: usize = 128;
/// Bytes of one rule, with what it names.
pub const RULE_BYTES_MAX: usize = 1024;
/// Words of one change, rules of a selector, and rules of all selectors of an account together.
pub const RULE_COUNT_MAX: usize = 512;
/// Selectors of an account, the first one included.
pub const SELECTOR_COUNT_MAX: usize = 16;
/// Patterns of one kind, and changes of commands, in one selector.
pub const PATTERN_COUNT_MAX: usize = 256;
/// Secrets of an account, and names of certificates.
pub const SECRET_COUNT_MAX: usize = 16;
/// Bytes of a secret as it is stored.
pub const SECRET_BYTES_MAX: usize = 256;
/// Hashes for one change: each password is compared with all stored ones, and a new one is hashed. It takes long on purpose,
/// and others wait for it.
pub const PASSWORD_WORK_MAX: usize = 128;
/// Accounts of a cluster.
pub const ACCOUNT_COUNT_MAX: usize = 1024;
/// Bytes of all rules of all accounts, so that the server list, which tells them, fits a frame.
pub const ACCOUNT_RULE_BYTES_MAX: usize = 1024 * 1024;
