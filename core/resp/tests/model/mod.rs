//! The front's part for commands about keys, over a map.

use ramhold_base::Version;
use ramhold_resp::commands::{describe, resolve};
use ramhold_resp::{Call, Change, Front, Object, Place, Protocol, Reply, Run, Stop, Transaction};
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct Model {
    /// Milliseconds since 1970.
    pub now: u64,
    pub db: u16,
    pub protocol: Protocol,
    objects: BTreeMap<Place, (Version, Object)>,
    written: u64,
    /// How often the last handler was run.
    pub runs: usize,
}

impl Model {
    pub fn new(now: u64) -> Model {
        Model { now, db: 0, protocol: Protocol::Resp2, objects: BTreeMap::new(), written: 0, runs: 0 }
    }

    /// One command's reply. Its handler knows no key at first.
    pub fn run(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let handler = match resolve(args) {
            Ok(row) => match row.run {
                Run::Keys(handler) | Run::Fast(_, handler) => handler,
                Run::Front(front) => return self.describe(front, args),
                Run::Container(_) => panic!("{} is no command by itself", row.name),
            },
            Err(fault) => {
                Reply::new(&mut out, self.protocol).fault(&fault);
                return out;
            }
        };
        let mut keys = Transaction::default();
        // Every run but the last asks for a key that it did not know.
        for run in 1..=args.len() + 1 {
            self.runs = run;
            out.clear();
            keys.drop_changes();
            let reply = Reply::new(&mut out, self.protocol);
            let mut call = Call { args, db: self.db, now: self.now, keys: &mut keys, reply };
            match handler(&mut call) {
                Ok(()) => {
                    self.carry_out(&keys);
                    return out;
                }
                Err(Stop::Fault(fault)) => {
                    assert!(!keys.has_changes(), "{args:?} changed something before {fault:?}");
                    out.clear();
                    Reply::new(&mut out, self.protocol).fault(&fault);
                    return out;
                }
                Err(Stop::Need) => {
                    let needed = keys.take_needed();
                    assert!(!needed.is_empty(), "{args:?} stopped and needs nothing");
                    for place in needed {
                        let object = self.objects.get(&place).filter(|(_, object)| !self.has_ended(object));
                        keys.learn(place.clone(), object.cloned());
                    }
                }
            }
        }
        panic!("{args:?} does not end");
    }

    /// The front's answers out of the table of commands.
    fn describe(&self, front: Front, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.protocol);
        let result = match front {
            Front::CommandInfo => {
                describe::info(&mut reply, &args[2..]);
                Ok(())
            }
            Front::CommandDocs => {
                describe::docs(&mut reply, &args[2..]);
                Ok(())
            }
            Front::CommandList => describe::list(&mut reply, &args[2..]),
            Front::CommandGetKeys => describe::keys_of(&mut reply, &args[2..]),
            other => panic!("{other:?} is not about keys, nor about the table"),
        };
        if let Err(fault) = result {
            reply.fault(&fault);
        }
        out
    }

    fn has_ended(&self, object: &Object) -> bool {
        object.expires.is_some_and(|ends| ends <= self.now)
    }

    fn carry_out(&mut self, keys: &Transaction) {
        for (place, _, change) in keys.entries() {
            match change {
                Some(Change::Write(object)) => {
                    assert!(!self.has_ended(object), "{place:?} is written though it has ended");
                    self.written += 1;
                    self.objects.insert(place.clone(), (Version(self.written), object.clone()));
                }
                Some(Change::Remove) => {
                    self.objects.remove(place);
                }
                None => {}
            }
        }
    }
}
