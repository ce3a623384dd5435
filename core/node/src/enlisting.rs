//! The start of a server's life: from its data directory to a serving member of the cluster.

use crate::server::{Context, Phase};
use crate::{EXIT_CANNOT_SERVE, ServerNode};
use ramhold_base::planted::{Defect, planted};
use ramhold_base::{Effect, Effects, Instant, Level, Peer, Status};
use ramhold_master::Master;
use ramhold_wire::control::Address;
use ramhold_wire::membership::{Enlist, Enlisted, LabelRefusal, PlaceFault};
use ramhold_wire::{Header, View, decode, request};
use std::time::Duration;

/// How often a server that cannot reach its coordinator says so.
const COMPLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// How long a server waits for its place in the topology, which another server has. A dead one is found within seconds.
const PLACE_PATIENCE: Duration = Duration::from_secs(10);

impl ServerNode {
    /// Moves the server's life on as far as it goes.
    pub(crate) fn advance_life(&mut self, now: Instant, effects: &mut Effects) {
        if let Some(error) = self.backup.start_error() {
            let reason = error.to_string();
            return self.cannot_serve(reason, effects);
        }
        if self.phase == Phase::Starting && self.backup.identity().is_some() {
            self.phase = Phase::Enlisting;
            self.enlist_since = Some(now);
            self.enlist_reported = now;
            self.enlist_at = Some(now);
        }
        if self.phase == Phase::Enlisting && self.enlist_at.is_some_and(|at| at <= now) {
            self.ask(now, effects);
        }
        if self.phase == Phase::Installing && self.backup.is_serving() {
            self.serve(now, effects);
        }
        if self.phase == Phase::Stopping && self.backup.is_stopped() {
            self.phase = Phase::Ended;
            effects.report(Level::Info, "stopped: everything is flushed");
            effects.push(Effect::Exit { code: 0, reason: "stopped".into() });
        }
    }

    fn ask(&mut self, now: Instant, effects: &mut Effects) {
        self.enlist_at = None;
        let identity = self.backup.identity().expect("known before enlisting");
        let to = self.config.coordinator;
        if now.since(self.enlist_reported) >= COMPLAIN_INTERVAL {
            self.enlist_reported = now;
            let since = self.enlist_since.map(|s| now.since(s).as_secs()).unwrap_or_default();
            let text = match self.enlist_refusal.take() {
                Some(status) => {
                    format!(
                        "the coordinator at {to} has not taken this server in for {since} s: {status}; still trying"
                    )
                }
                None => {
                    format!(
                        "no answer from the coordinator at {to} for {since} s; still trying (is it running there?)"
                    )
                }
            };
            effects.report(Level::Warn, text);
        }
        let message = Enlist {
            token: self.token,
            directory: identity.directory,
            replaces: identity.last,
            address: Address(self.config.advertise),
            labels: self.config.labels.clone(),
            master: self.config.master,
            backup: self.config.backup_config.frames_max > 0,
            read_speed: self.config.read_speed,
            log_bytes: self.config.master_config.log_bytes,
            disk_bytes: u64::from(self.config.backup_config.frames_max)
                * u64::from(self.config.backup_config.segment_bytes),
            redis_cluster_port: self.config.resp.as_ref().and_then(|resp| resp.cluster_port),
            links: Some(self.config.links.clone()).filter(|links| !links.is_empty()),
        };
        let header = Header { cluster: identity.cluster.unwrap_or_default(), ..Header::default() };
        let rpc = self.calls.open(to, now, now + self.config.enlist_interval * 4, Context::Enlist);
        request(effects, Peer::Addr(to), &header, rpc, &message);
    }

    pub(crate) fn on_enlisted(&mut self, now: Instant, header: &Header, body: &[u8], effects: &mut Effects) {
        if self.phase != Phase::Enlisting {
            return;
        }
        match header.status() {
            Status::Ok => {}
            Status::WrongCluster => {
                let reason = format!(
                    "the data directory belongs to another cluster than the coordinator at {}; \
                     use another directory, or the right coordinator",
                    self.config.coordinator
                );
                return self.cannot_serve(reason, effects);
            }
            Status::Fenced => {
                // An id was given out for this token, its answer was lost, and that id has been declared dead since.
                // Nobody ever served under the id: begin as another life.
                self.token = self.rng.id();
                self.enlist_at = Some(now + self.config.enlist_interval);
                return;
            }
            Status::LabelRefused => return self.on_label_refused(now, body, effects),
            status if status.is_retryable() => {
                self.enlist_refusal = Some(status);
                self.enlist_at = Some(now + self.config.enlist_interval);
                return;
            }
            status => {
                let reason = format!("the coordinator at {} refused: {status}", self.config.coordinator);
                return self.cannot_serve(reason, effects);
            }
        }
        let Ok(enlisted) = decode::<Enlisted>(body) else {
            self.enlist_at = Some(now + self.config.enlist_interval);
            return;
        };
        let mut view = View::new(self.config.coordinator);
        view.cluster = enlisted.cluster;
        view.me = enlisted.server;
        view.term = enlisted.term;
        view.list.apply(&enlisted.list);
        view.tell_time(now, enlisted.list.time);
        view.placement = enlisted.list.replica_placement();
        view.topology = enlisted.list.topology.clone();
        view.bricks = enlisted.list.bricks.clone().unwrap_or_default();
        self.view = view;
        self.doors.on_list(&enlisted.list, effects);
        self.ceiling = enlisted.ceiling;
        self.config.master_config.index_secret =
            enlisted.index_secret.filter(|_| !planted(Defect::ScanOrderOwn));
        self.phase = Phase::Installing;
        effects.push(Effect::Named { server: enlisted.server });
        self.backup.enlisted(now, &self.view, effects);
        self.backup.on_list(now, &self.view, effects);
    }

    /// The place of a server that is dead is free as soon as the coordinator knows of the death. Any other refusal is for
    /// good.
    fn on_label_refused(&mut self, now: Instant, body: &[u8], effects: &mut Effects) {
        let refusal = decode::<LabelRefusal>(body).ok();
        let is_taken = refusal.as_ref().is_some_and(|refusal| refusal.fault == PlaceFault::Taken);
        // Answers count, and not the time: a coordinator that is away finds nobody dead.
        self.place_taken_count += 1;
        if is_taken && self.config.enlist_interval * self.place_taken_count < PLACE_PATIENCE {
            self.enlist_refusal = Some(Status::LabelRefused);
            self.enlist_at = Some(now + self.config.enlist_interval);
            return;
        }
        let why = refusal.map_or_else(|| Status::LabelRefused.to_string(), |refusal| refusal.to_string());
        self.cannot_serve(format!("the coordinator at {} refused: {why}", self.config.coordinator), effects);
    }

    fn serve(&mut self, now: Instant, effects: &mut Effects) {
        self.phase = Phase::Serving;
        if self.config.master {
            let region = self.region.take().expect("one master per life");
            let config = self.config.master_config.clone();
            self.master = Some(Master::new(config, region, &self.view, self.ceiling, self.rng.u64()));
        }
        effects.report(
            Level::Info,
            format!(
                "serving as {} in cluster {} at {}",
                self.view.me, self.view.cluster, self.config.advertise
            ),
        );
        self.backup.on_list(now, &self.view, effects);
    }

    fn cannot_serve(&mut self, reason: String, effects: &mut Effects) {
        self.phase = Phase::Ended;
        effects.report(Level::Error, reason.clone());
        effects.push(Effect::Exit { code: EXIT_CANNOT_SERVE, reason });
    }
}
