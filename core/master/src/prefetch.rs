//! Prefetches the memory that requests will need which are known but not treated yet.
//!
//! Nothing is checked here. The claims of a request are taken as true, and reading from the place where its object
//! would be changes nothing. Idea and measurements: `prefetch` of the log.

use crate::master::Master;
use crate::service::Service;
use ramhold_base::{KeyHash, TableId};
use ramhold_log::PREFETCH_COUNT_MAX;
use ramhold_wire::data::{IncrementRequest, KeyRequest, WriteRequest};
use ramhold_wire::multi::MultiRequest;
use ramhold_wire::{Addressee, ForMaster, ForObject, Opcode};

/// Keys that requests will ask for. Their memory is fetched whenever there are enough of them, and by `fetch`.
pub struct Wanted<'a> {
    service: &'a Service,
    keys: [(TableId, KeyHash); PREFETCH_COUNT_MAX],
    count: usize,
}

impl Master {
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted {
            service: &self.service,
            keys: [(TableId::default(), KeyHash(0)); PREFETCH_COUNT_MAX],
            count: 0,
        }
    }
}

impl Wanted<'_> {
    pub fn key(&mut self, table: TableId, key: &[u8]) {
        let Some(hash) = self.service.tablets.hash(table, key) else { return };
        if self.count == self.keys.len() {
            self.fetch();
        }
        self.keys[self.count] = (table, hash);
        self.count += 1;
    }

    /// Adds the keys of one request of a client.
    pub fn request(&mut self, opcode: Opcode, body: &[u8]) {
        match opcode.addressee() {
            Addressee::ForObject(request) => self.object(request, body),
            Addressee::ForMaster(ForMaster::Multi) => {
                // The memory for reads at the start of the frame is fetched when they are answered, if they can be at once.
                if let Ok(multi) = MultiRequest::decode(body) {
                    let mutations = multi.items().skip_while(|item| item.request == ForObject::Read);
                    mutations.for_each(|item| self.object(item.request, item.body));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, request: ForObject, body: &[u8]) {
        let key = match request {
            ForObject::Read | ForObject::Remove => {
                KeyRequest::decode(body).map(|request| (request.table, request.key))
            }
            ForObject::Write => WriteRequest::decode(body).map(|request| (request.table, request.key)),
            ForObject::Increment => {
                IncrementRequest::decode(body).map(|request| (request.table, request.key))
            }
        };
        if let Ok((table, key)) = key {
            self.key(table, key);
        }
    }

    /// Fetches the memory for the keys. A single key is left out: its look-up fetches the memory as fast by itself.
    pub fn fetch(&mut self) {
        if self.count > 1 {
            self.service.shard.log.prefetch(&self.keys[..self.count]);
        }
        self.count = 0;
    }
}
