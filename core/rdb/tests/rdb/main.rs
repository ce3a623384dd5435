//! Dump files that Redis wrote, and every damage to them.

mod damage;
mod files;
mod types;

use ramhold_rdb::{Error, File, Item};

pub const ALL: &[u8] = include_bytes!("../data/redis-7.0.rdb");
pub const IDLE: &[u8] = include_bytes!("../data/redis-7.0-idle.rdb");

pub fn items(bytes: &[u8]) -> Result<Vec<Item>, Error> {
    let mut file = File::open(bytes, 1000, 1000)?;
    let mut items = Vec::new();
    while let Some(item) = file.next_item()? {
        items.push(item);
    }
    Ok(items)
}
