//! The demands of a request, in the terms in which accounts are allowed something.
//!
//! The row of a command says where its keys are and what it does to them. Few commands are about more: a second database, all
//! keys, channels. They are listed here, and so are those whose access to a key depends on their arguments.
//!
//! Invariant: a request that cannot be understood asks for no less than one that can.
//!
//! Not here: the decision (`access`), the refusal (`front`). Protocol: docs/protocols/access.md. Catalogue: J4.

use crate::catalog::Numbers;
use crate::front::config::RespConfig;
use crate::{Command, Front, Run};
use ramhold_access::permit::Channel;
use ramhold_access::rule::Access;
use ramhold_access::{Deed, Denied, Extent, Permit};

/// A request of a client that is in this database.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub row: &'static Command,
    pub args: &'a [&'a [u8]],
    pub db: u16,
}

impl Request<'_> {
    /// Whether a permit allows the request.
    pub fn check(&self, permit: &Permit, numbers: &Numbers, config: &RespConfig) -> Result<(), Denied> {
        if permit.is_unrestricted() {
            return Ok(());
        }
        let command = numbers.get(self.row).ok_or(Denied::Command)?;
        let keys: Vec<(Access, &[u8])> = self.keys().collect();
        let (own, others) = (config.table_name(self.db), self.other_databases(config));
        let mut tables: Vec<(&[u8], Extent<'_>)> = Vec::new();
        // A command that puts a key into another database writes it there.
        let (mut here, mut there) = (keys.clone(), Vec::new());
        if !others.is_empty()
            && let Some((_, key)) = keys.last()
        {
            there.push((Access::WRITE, *key));
            if keys.len() > 1 {
                here.pop();
            }
        }
        let named: Vec<String>;
        match self.row.run {
            Run::Front(Front::FlushAll) => {
                named = (0..config.databases).map(|db| config.table_name(db)).collect();
                tables.extend(named.iter().map(|name| (name.as_bytes(), Extent::All(Access::WRITE))));
            }
            Run::Front(Front::FlushDb) => tables.push((own.as_bytes(), Extent::All(Access::WRITE))),
            Run::Front(Front::Keys | Front::Scan | Front::RandomKey | Front::DbSize) => {
                tables.push((own.as_bytes(), Extent::Names));
            }
            Run::Front(Front::Select) => {}
            _ if !here.is_empty() => tables.push((own.as_bytes(), Extent::Keys(&here))),
            _ => {}
        }
        for other in &others {
            let extent = if there.is_empty() { Extent::Names } else { Extent::Keys(&there) };
            tables.push((other.as_bytes(), extent));
        }
        let channels: Vec<Channel<'_>> = self.channels().collect();
        permit.check(&Deed { command, tables: &tables, channels: &channels })
    }

    /// The key with this number in the deed; see `Denied`.
    pub fn key(&self, at: usize) -> &[u8] {
        self.row.keys.of(self.args).nth(at).unwrap_or_default()
    }

    /// The channel with this number in the deed.
    pub fn channel(&self, at: usize) -> &[u8] {
        self.channels().nth(at).map_or(&[], |channel| channel.name)
    }

    /// The keys, each with what is done to it.
    fn keys(&self) -> impl Iterator<Item = (Access, &[u8])> {
        let Request { row, args, .. } = *self;
        let last = row.access.len().saturating_sub(1);
        row.keys.of(args).enumerate().map(move |(at, key)| {
            let words = row.access.get(at.min(last)).copied().unwrap_or_default();
            (self.access(words), key)
        })
    }

    /// The access that the words of a key specification tell.
    fn access(&self, words: &str) -> Access {
        let flags = words.split(';').next().unwrap_or_default();
        let has = |flag: &str| flags.split(' ').any(|word| word == flag);
        let (reads, writes) = (has("access"), has("insert") || has("update") || has("delete"));
        if !has("variable_flags") {
            return Access { reads, writes };
        }
        let has_word = |args: &[&[u8]], names: &[&str]| {
            args.iter().any(|arg| names.iter().any(|name| arg.eq_ignore_ascii_case(name.as_bytes())))
        };
        match self.row.name {
            // The value of an option may be spelt like another option: then more is asked for than need be.
            "set" => {
                let reads = has_word(self.args.get(3..).unwrap_or_default(), &["get", "ifeq", "ifver"]);
                Access { reads, writes: true }
            }
            "bitfield" => {
                let writes = has_word(self.args.get(2..).unwrap_or_default(), &["set", "incrby"]);
                Access { reads: true, writes }
            }
            _ => Access::BOTH,
        }
    }

    /// Tables of other databases that the request names. A number that is none lets the command fail by itself.
    fn other_databases(&self, config: &RespConfig) -> Vec<String> {
        let behind_db = |at: usize| at > 3 && self.args[at - 1].eq_ignore_ascii_case(b"db");
        let is_named = |at: usize| match (self.row.run, self.row.name) {
            (Run::Front(Front::Select), _) => at == 1,
            (_, "move") => at == 2,
            (_, "copy") => behind_db(at),
            _ => false,
        };
        let named = (0..self.args.len()).filter(|at| is_named(*at)).map(|at| self.args[at]);
        named.filter_map(|text| config.database_of(text).ok()).map(|db| config.table_name(db)).collect()
    }

    fn channels(&self) -> impl Iterator<Item = Channel<'_>> {
        let (names, is_pattern) = match self.row.run {
            Run::Front(Front::Subscribe | Front::SSubscribe) => (self.args.get(1..), false),
            Run::Front(Front::PSubscribe) => (self.args.get(1..), true),
            Run::Front(Front::Publish | Front::SPublish) => (self.args.get(1..2), false),
            _ => (None, false),
        };
        names.unwrap_or_default().iter().map(move |name| Channel { name, is_pattern })
    }
}
