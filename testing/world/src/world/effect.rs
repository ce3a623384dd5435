//! Carries out the decisions of a machine: frames, disk and store work, work with passwords, reports, the end of its process.
//!
//! Disk and store work takes effect at once or when it completes, by chance, so that a crash between the two
//! meets both cases. A process may die between two effects of one step.

use super::connection::Parting;
use super::event::{DiskWork, Happening, StoreWork};
use super::node::Pending;
use super::{ERRORS_KEPT, Exit, Fact, World};
use crate::network::MILLI;
use crate::store::{Store, Watch};
use ramhold_base::{
    DiskError, DiskFile, DiskToken, Effect, Effects, Instant, Level, Machine, SecretResult, SecretToken,
    SecretWork, StoreRequest, StoreResult, StoreToken,
};

/// Works with passwords that wait for the one that is being done; as many as in `io/runtime`.
const SECRETS_WAITING_MAX: u32 = 256;

impl<M: Machine> World<M> {
    /// `step_frame`: the input of the step, if that was a frame.
    pub(super) fn execute(&mut self, node: usize, effects: &mut Effects, step_frame: &[u8]) {
        let Effects { bytes, list, .. } = effects;
        for effect in list.drain(..) {
            if self.dies_now(node) {
                self.note_fault("crash between effects", node);
                self.end_process(node, Parting::Killed);
                return;
            }
            match effect {
                Effect::Send { to, frame } => {
                    let frame = frame.of(bytes);
                    if self.pace.is_none() {
                        self.trace.note_bytes(&frame);
                    }
                    self.send(node, to, &frame);
                }
                Effect::Close { conn } => self.close(node, conn),
                Effect::Hear { conn } => self.hear(node, conn),
                Effect::DiskWrite { token, file, offset, data } => {
                    self.trace.note(offset);
                    let data = data.of(bytes, step_frame);
                    if self.pace.is_none() {
                        self.trace.note_bytes(data);
                    }
                    self.disk_write(node, token, file, offset, data);
                }
                Effect::DiskRead { token, file, offset, bytes } => {
                    self.plan_disk(node, token, file, DiskWork::Read { file, offset, bytes });
                }
                Effect::DiskCopy { token, from, from_offset, to, to_offset, bytes } => {
                    let end = to_offset + u64::from(bytes);
                    let work = match self.node(node).disks.room(to, end) {
                        Ok(()) => DiskWork::Copy { from, from_offset, to, to_offset, bytes },
                        Err(error) => self.disk_refusal(error),
                    };
                    self.plan_disk(node, token, to, work);
                }
                Effect::DiskSync { token, file } => {
                    let through = self.node(node).disks.file(file).last_write();
                    self.plan_disk(node, token, file, DiskWork::Sync { file, through });
                }
                Effect::DiskReserve { token, file, bytes } => {
                    let work = match self.node(node).disks.room(file, bytes) {
                        Ok(()) => DiskWork::Reserve { file, bytes },
                        Err(error) => self.disk_refusal(error),
                    };
                    self.plan_disk(node, token, file, work);
                }
                Effect::Store { token, request } => self.store_request(node, token, request),
                Effect::Secret { token, work } => self.plan_secret(node, token, work),
                Effect::Mark(mark) => {
                    if self.pass_mark(node, mark.name()) {
                        return;
                    }
                }
                Effect::Report { level, text } => match text.strip_prefix("mark:") {
                    // Actors of the simulator have marks of their own.
                    Some(name) => {
                        if self.pass_mark(node, name) {
                            return;
                        }
                    }
                    None => self.report(node, level, text),
                },
                Effect::Named { server } => {
                    self.trace.note(server.raw());
                    if self.log.is_some() {
                        self.line(node, &format!("is {server}"));
                    }
                }
                Effect::Exit { code, reason } => {
                    self.line(node, &format!("exits with {code}: {reason}"));
                    self.exits.push(Exit { at: self.now, node, code, reason });
                    self.end_process(node, Parting::Killed);
                    if self.node(node).supervised {
                        let delay = self.rng.between(100 * MILLI, 1000 * MILLI);
                        self.restart_at(node, self.now + delay);
                    }
                    return;
                }
            }
        }
    }

    fn dies_now(&mut self, node: usize) -> bool {
        let Some(left) = &mut self.nodes[node].dies_after else { return false };
        match left.checked_sub(1) {
            Some(less) => {
                *left = less;
                false
            }
            None => true,
        }
    }

    fn report(&mut self, node: usize, level: Level, text: String) {
        if let Some(fact) = text.strip_prefix("fact:") {
            self.facts.push(Fact { at: self.now, node, text: fact.to_string() });
            return;
        }
        if level == Level::Error && self.errors.len() < ERRORS_KEPT {
            let line = format!("{:?} {}: {text}", Instant(self.now), self.nodes[node].name);
            self.errors.push(line);
        }
        if self.log.is_some() {
            self.line(node, &format!("{level:?}: {text}"));
        }
    }

    // Disks.

    fn disk_refusal(&mut self, error: DiskError) -> DiskWork {
        *self.faults.entry("disk full").or_default() += 1;
        DiskWork::Fail { error }
    }

    fn disk_write(&mut self, node: usize, token: DiskToken, file: DiskFile, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        if let Err(error) = self.node(node).disks.room(file, end) {
            let work = self.disk_refusal(error);
            return self.plan_disk(node, token, file, work);
        }
        let applied = file == DiskFile::Buffers || self.rng.chance(1, 2);
        if applied {
            self.disks_mut(node).write(file, offset, data);
        }
        let bytes = data.len() as u64;
        let data = if applied { Vec::new() } else { data.to_vec() };
        self.plan_disk(node, token, file, DiskWork::Write { file, offset, bytes, data, applied });
    }

    /// Work on the buffers completes in the same turn, everything else after a while.
    fn plan_disk(&mut self, node: usize, token: DiskToken, file: DiskFile, work: DiskWork) {
        if file == DiskFile::Buffers {
            let result = self.disk_result(node, work);
            self.same_turn.push_back(Pending::Disk { token, result });
            return;
        }
        let life = self.node(node).life;
        let at = match &mut self.pace {
            Some(pace) => pace.device(self.leaves_at, node, token, file, work.on_device()),
            None => self.now + self.rng.between(self.costs.disk_min, self.costs.disk_max),
        };
        self.queue.push(at, Happening::Disk { node, life, token, work });
    }

    pub(super) fn complete_disk(&mut self, node: usize, life: u64, token: DiskToken, work: DiskWork) {
        let again = self.pace.as_mut().and_then(|pace| pace.device_again(self.now, node, token));
        if let Some(again) = again {
            return self.queue.push(again, Happening::Disk { node, life, token, work });
        }
        if self.node(node).life == life && self.node(node).is_up() {
            let result = self.disk_result(node, work);
            self.deliver(node, life, Pending::Disk { token, result });
        }
    }

    fn disk_result(&mut self, node: usize, work: DiskWork) -> Result<Vec<u8>, DiskError> {
        let World { nodes, rng, faults, .. } = self;
        let disks = &mut nodes[node].disks;
        let mut fails = |ppm: u32, kind: &'static str| {
            let fails = ppm > 0 && rng.chance(u64::from(ppm), 1_000_000);
            *faults.entry(kind).or_default() += u64::from(fails);
            fails
        };
        match work {
            DiskWork::Write { file, offset, data, applied, .. } => {
                if !applied {
                    disks.write(file, offset, &data);
                }
                Ok(Vec::new())
            }
            DiskWork::Read { file, offset, bytes } => {
                if file != DiskFile::Buffers && fails(disks.options.read_error_ppm, "read error") {
                    return Err(DiskError::Failed("the device cannot read this".into()));
                }
                Ok(disks.file(file).read(offset, bytes).to_vec())
            }
            DiskWork::Copy { from, from_offset, to, to_offset, bytes } => {
                let data = disks.file(from).read(from_offset, bytes).to_vec();
                disks.write(to, to_offset, &data);
                Ok(Vec::new())
            }
            DiskWork::Sync { file, through } => {
                if file != DiskFile::Buffers && fails(disks.options.sync_error_ppm, "sync error") {
                    disks.file_mut(file).forget_through(through);
                    return Err(DiskError::Failed("the device cannot write what it had taken".into()));
                }
                disks.file_mut(file).sync_through(through);
                Ok(Vec::new())
            }
            DiskWork::Reserve { file, bytes } => {
                disks.file_mut(file).reserve(bytes);
                Ok(Vec::new())
            }
            DiskWork::Fail { error } => Err(error),
        }
    }

    // The store.

    fn store_request(&mut self, node: usize, token: StoreToken, request: StoreRequest) {
        let life = self.node(node).life;
        let at = match &mut self.pace {
            Some(pace) => self.leaves_at + pace.store(),
            None => self.now + self.rng.between(self.costs.store_min, self.costs.store_max),
        };
        let fails =
            self.store_failure_ppm > 0 && self.rng.chance(u64::from(self.store_failure_ppm), 1_000_000);
        // It takes effect at its issue or at its completion. A failed request takes effect before its failure
        // is told, or never.
        let early = self.rng.chance(1, 2);
        if let StoreRequest::Watch { prefix } = &request {
            let watch = Watch { node, life, token, prefix: prefix.clone() };
            self.store_of(node).watch(watch);
            return;
        }
        let work = if fails {
            if early {
                self.execute_in_store(node, &request);
            }
            self.note_fault("store failure", node);
            StoreWork::Answer(StoreResult::Failed("the store did not answer".into()))
        } else if early {
            StoreWork::Answer(self.execute_in_store(node, &request))
        } else {
            StoreWork::Request(request)
        };
        self.queue.push(at, Happening::Store { node, life, token, work });
    }

    pub(super) fn complete_store(&mut self, node: usize, life: u64, token: StoreToken, work: StoreWork) {
        if self.node(node).life != life || !self.node(node).is_up() {
            return;
        }
        let result = match work {
            StoreWork::Request(request) => self.execute_in_store(node, &request),
            StoreWork::Answer(result) => result,
        };
        self.deliver(node, life, Pending::Store { token, result });
    }

    fn store_of(&mut self, node: usize) -> &mut Store {
        let store = self.nodes[node].store;
        &mut self.stores[store]
    }

    fn execute_in_store(&mut self, node: usize, request: &StoreRequest) -> StoreResult {
        let mut told = Vec::new();
        let result = self.store_of(node).execute(request, &mut told);
        for (watch, result) in told {
            let delay = self.rng.between(self.costs.store_min, self.costs.store_max);
            let pending = Pending::Store { token: watch.token, result };
            self.queue
                .push(self.now + delay, Happening::Input { node: watch.node, life: watch.life, pending });
        }
        result
    }

    // Passwords.

    /// A process does its works one after the other. A match that takes no hash is answered in the same turn or later, by
    /// chance.
    fn plan_secret(&mut self, node: usize, token: SecretToken, work: SecretWork) {
        let cost = self.rng.between(self.costs.secret_min, self.costs.secret_max);
        let host = &mut self.nodes[node];
        let mut at_once = host.secrets.at_once(&work).filter(|_| self.rng.chance(1, 2));
        if at_once.is_none() && host.secrets_planned > SECRETS_WAITING_MAX {
            at_once = Some(SecretResult::Failed("too many works with passwords wait".into()));
        }
        if let Some(result) = at_once {
            self.same_turn.push_back(Pending::Secret { token, result });
            return;
        }
        host.secrets_planned += 1;
        host.secrets_busy_until = host.secrets_busy_until.max(self.leaves_at) + cost;
        self.queue.push(host.secrets_busy_until, Happening::Secret { node, life: host.life, token, work });
    }

    pub(super) fn complete_secret(&mut self, node: usize, life: u64, token: SecretToken, work: SecretWork) {
        if self.node(node).life != life || !self.node(node).is_up() {
            return;
        }
        let host = &mut self.nodes[node];
        host.secrets_planned -= 1;
        let result = host.secrets.carry_out(work, &mut self.rng);
        self.deliver(node, life, Pending::Secret { token, result });
    }
}
