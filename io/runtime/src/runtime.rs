//! The loop: waits, feeds the machine, executes its effects.
//!
//! One turn: flush the output that is left, wait, hand on the input, let the machine end the turn, tick when due, end
//! overdue connections, flush once. Connections of the cluster go first. While many clients are heard, the loop looks at
//! them in between, as in a short turn of their own. The effects of each input are executed in order. Completions that these effects
//! produce at once are fed before the next frame.
//!
//! Invariants:
//! - the machine's first input is `Start`, and it gets no input after `Exit`
//! - the loop does not sleep while an input waits
//!
//! Not here: sockets (network), files (disk), what of the input is handed on when (feeding), the execution of an effect
//! (execute).

mod execute;
mod feeding;
mod lending;

use crate::clock;
use crate::config::RuntimeConfig;
use crate::disk::{Disk, open_disk};
use crate::error::StartError;
use crate::network::{ListenAt, Network, Others, Stats};
use crate::observe::{AskHandle, LoopSeen, Observer};
use crate::pending::Pending;
use crate::poll::{Ready, Waker};
use crate::polling::{Next, Polling};
use crate::report::{self, Report, Throttle};
use crate::secrets::Secrets;
use crate::store::StoreThread;
use crate::usage::{self, Usage};
use lending::Lending;
use ramhold_base::time::earliest;
use ramhold_base::{ConnId, Effects, Input, Instant, Latencies, Level, Machine, ServerId};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Completions fed in one go; a machine that answers each with another must not keep the network waiting for ever.
const PENDING_COUNT_MAX: usize = 4096;
/// A wait that is over so soon has found what had come before it. One from which the process is woken takes longer.
const AT_ONCE: Duration = Duration::from_micros(20);
/// How long a process that ends goes on sending its last words.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why the machine ended: `Effect::Exit` as it was emitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exit {
    pub code: u8,
    pub reason: String,
}

/// The outcome of one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The wait is over and nothing came, except perhaps a tick.
    Idle,
    /// Something came in or went out.
    Worked,
    /// The machine has ended; see `Runtime::exit`.
    Ended,
}

/// Asks the loop from any thread to feed `Input::Stop`.
#[derive(Clone)]
pub struct StopHandle {
    asked: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl StopHandle {
    /// May be called from a signal handler: it only sets a flag and writes to an eventfd.
    pub fn stop(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

/// Changes settings of the machine from any thread, between two of its steps.
pub struct ChangeHandle<M> {
    changes: Changes<M>,
    waker: Arc<Waker>,
}

type Change<M> = Box<dyn FnOnce(&mut M) + Send>;
type Changes<M> = Arc<Mutex<Vec<Change<M>>>>;

impl<M> ChangeHandle<M> {
    /// The change must have no effects, and not take long.
    pub fn change(&self, change: impl FnOnce(&mut M) + Send + 'static) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(change));
        self.waker.wake();
    }
}

pub struct Runtime<M: Machine> {
    machine: M,
    effects: Effects,
    lending: Lending,
    network: Network,
    disk: Option<Disk>,
    store: Option<StoreThread>,
    secrets: Secrets,
    polling: Polling,
    /// Inputs to feed before anything else.
    pending: VecDeque<Pending>,
    /// From the helper threads.
    completions: Receiver<Pending>,
    stop: StopHandle,
    observer: Observer<M>,
    changes: Changes<M>,
    turns: Latencies,
    last_work: Instant,
    last_step: Instant,
    /// The last look at what is ready: whatever comes later is found by the next one.
    looked: Instant,
    /// Frames that the last look has found had not come by then.
    came_after: Instant,
    exit: Option<Exit>,
    named: Option<ServerId>,
    report: Report,
    troubles: Troubles,
    /// Reused from turn to turn.
    ready: Vec<Ready>,
    backlog: Vec<ConnId>,
    /// Connections over which something has come that is not handed on yet, and how many bytes.
    come: Vec<ConnId>,
    come_bytes: usize,
    /// When the connections of the cluster were looked at last, in this turn.
    looked_at_first: Instant,
    ready_first: Vec<Ready>,
}

/// The counts that were last reported of what a stranger can provoke, and throttles of these reports.
#[derive(Default)]
struct Troubles {
    told: Stats,
    malformed: Throttle,
    network: Throttle,
}

impl<M: Machine> Runtime<M> {
    /// Opens the directories, listens, and feeds the machine its `Start`.
    pub fn new(machine: M, config: RuntimeConfig) -> Result<Runtime<M>, StartError> {
        let system = |what| move |error: std::io::Error| StartError::System { what, error };
        let waker = Arc::new(Waker::new().map_err(|errno| system("an eventfd")(errno.into()))?);
        let (sender, completions) = channel();
        // The directory locks come first: a process that cannot get them must not appear on the network.
        let disk = match &config.disk {
            Some(disk) => {
                let files = open_disk(disk)?;
                Some(
                    Disk::start(files, config.read_memory_bytes, sender.clone(), Arc::clone(&waker))
                        .map_err(system("a thread"))?,
                )
            }
            None => None,
        };
        let store = match config.store {
            Some(store) => Some(
                StoreThread::start(store, sender.clone(), Arc::clone(&waker)).map_err(system("a thread"))?,
            ),
            None => None,
        };
        let secrets = Secrets::new(sender, Arc::clone(&waker));
        let alone = config.listen.into_iter().chain(config.listen_links);
        let alone = alone.map(|addr| ListenAt::Address(addr, Others::Not));
        let shared = config.listen_also.into_iter().map(|addr| ListenAt::Address(addr, Others::Too));
        let open = config.listen_open.into_iter().map(ListenAt::Open);
        let path = config.listen_path.into_iter().map(|(path, mode)| ListenAt::Path(path, mode));
        let listen = alone.chain(shared).chain(open).chain(path).collect();
        let mut network = Network::new(listen, config.reached_at, config.limits, &*waker)?;
        network.hears_bytes = config.hears_bytes;
        let mut runtime = Runtime {
            machine,
            effects: Effects::new(),
            lending: Lending::default(),
            network,
            disk,
            store,
            secrets,
            polling: Polling::new(config.poll),
            pending: VecDeque::new(),
            completions,
            observer: Observer::new(Arc::clone(&waker)),
            changes: Arc::default(),
            turns: Latencies::default(),
            stop: StopHandle { asked: Arc::new(AtomicBool::new(false)), waker },
            last_work: Instant::ZERO,
            last_step: Instant::ZERO,
            looked: Instant::ZERO,
            came_after: Instant::ZERO,
            exit: None,
            named: None,
            report: config.report,
            troubles: Troubles::default(),
            ready: Vec::new(),
            backlog: Vec::new(),
            come: Vec::new(),
            come_bytes: 0,
            looked_at_first: Instant::ZERO,
            ready_first: Vec::new(),
        };
        if let Some((addr, error)) = runtime.network.no_local {
            let text = format!(
                "processes of this host reach {addr} over TCP only: the Unix name @ramhold/{addr} cannot be taken \
                 ({error}); see who holds it with ss -lxp, and start again when it is free"
            );
            (runtime.report)(Level::Warn, &report::line(None, &text));
        }
        let now = clock::now();
        runtime.enter(now, Input::Start { wall_millis: clock::wall_millis() });
        runtime.settle(now);
        Ok(runtime)
    }

    /// Where this process accepts connections; the first of its addresses.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.network.local_addr()
    }

    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// For settings that have no effects; whatever has goes through `step`.
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    pub fn stats(&self) -> Stats {
        self.network.stats
    }

    /// Connections that are there now, accepted and opened.
    pub fn connection_count(&self) -> usize {
        self.network.connection_count()
    }

    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    pub fn change_handle(&self) -> ChangeHandle<M> {
        ChangeHandle { changes: Arc::clone(&self.changes), waker: Arc::clone(&self.stop.waker) }
    }

    /// Has `show` called whenever somebody asks; it is called between the machine's steps and must not take long.
    pub fn show_with(&mut self, show: impl FnMut(&M, LoopSeen) + Send + 'static) -> AskHandle {
        self.observer.show_with(Box::new(show))
    }

    /// How the machine ended, once it has.
    pub fn exit(&self) -> Option<&Exit> {
        self.exit.as_ref()
    }

    /// Lets the owner call the machine, and executes the effects. Frames go out when the next turn begins.
    pub fn step<R>(&mut self, call: impl FnOnce(&mut M, Instant, &mut Effects) -> R) -> R {
        let now = clock::now();
        let now = self.not_before(now);
        let result = call(&mut self.machine, now, &mut self.effects);
        self.execute(now, &[]);
        self.settle(now);
        self.last_work = now;
        result
    }

    /// Sends what `step` has made the machine send. The next turn does so too: this is for a caller that has other work
    /// to do before that.
    pub fn flush(&mut self) {
        let now = clock::now();
        self.network.flush(now);
        self.settle(now);
    }

    /// Turns until the machine ends, and a moment longer to get its last frames out.
    pub fn run(&mut self) -> Exit {
        while self.turn(None) != Turn::Ended {}
        self.say_last_words();
        self.exit.clone().expect("a machine that has ended has an exit")
    }

    /// The same, and tells the machine again and again what the process uses. It is told between two turns, `interval`
    /// after the last time at the earliest.
    pub fn run_telling(&mut self, interval: Duration, mut tell: impl FnMut(&mut M, Instant, Usage)) -> Exit {
        let mut next = Instant::ZERO;
        while self.turn(Some(interval)) != Turn::Ended {
            let now = clock::now();
            if next <= now && self.exit.is_none() {
                next = now + interval;
                tell(&mut self.machine, now, Usage::now());
            }
        }
        self.say_last_words();
        self.exit.clone().expect("a machine that has ended has an exit")
    }

    /// One turn of the loop. Returns when something came in, when `wait` is over (none: waits for ever), or when the
    /// machine's deadline has come and it was given its tick.
    pub fn turn(&mut self, wait: Option<Duration>) -> Turn {
        if self.exit.is_some() {
            return Turn::Ended;
        }
        let start = clock::now();
        self.network.flush(start);
        self.settle(start);
        let woken = self.wait(start, wait);
        self.observer.turned(woken);

        let worked = self.take_in(woken);
        self.end_turn();
        let now = clock::now();
        if worked {
            self.last_work = now;
            self.turns.count(now.since(woken));
        }
        self.tick(now);
        if self.network.on_time(now) {
            self.lending.shrink();
        }
        self.network.flush(now);
        self.settle(now);
        self.report_troubles(now);
        match (&self.exit, worked) {
            (Some(_), _) => Turn::Ended,
            (None, true) => Turn::Worked,
            (None, false) => Turn::Idle,
        }
    }

    /// Waits until something is ready, somebody's time has come, or `wait` is over.
    /// Gives when that was.
    fn wait(&mut self, start: Instant, wait: Option<Duration>) -> Instant {
        let due = earliest(self.machine.deadline(), self.network.deadline());
        let until = earliest(wait.map(|wait| start + wait), due);
        let more = self.exit.is_some()
            || !self.pending.is_empty()
            || self.machine.puts_off()
            || self.network.has_backlog()
            || self.network.is_dirty();
        self.polling.begin();
        let mut now = start;
        loop {
            let over = more || until.is_some_and(|until| until <= now);
            let next = if over { Next::Look } else { self.polling.next(now, self.last_work) };
            let sleeps = next == Next::Sleep;
            let rest = if sleeps { until.map(|until| until.since(now)) } else { Some(Duration::ZERO) };
            let looked = self.looked;
            let asked =
                self.network.wait(now, rest, &mut self.ready).expect("the event queue is ours and open");
            if asked {
                self.looked = now;
            }
            self.came_after = looked;
            if sleeps && !asked {
                return now;
            }
            if sleeps {
                self.looked = clock::now();
                let slept = self.looked.since(now);
                if slept > AT_ONCE {
                    // It slept until something came.
                    self.came_after = self.looked;
                    self.polling.slept(slept, !self.ready.is_empty());
                }
                return self.looked;
            }
            if over || !self.ready.is_empty() {
                return now;
            }
            let begun = now;
            now = clock::now();
            self.polling.looked(now.since(begun));
            if next == Next::GiveAway {
                // Any other thread that wants this core gets it now. If there is none, that takes less than a
                // microsecond.
                std::thread::yield_now();
                let given = now;
                now = clock::now();
                self.polling.gave_away(now.since(given));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        if self.exit.is_none() && self.machine.deadline().is_some_and(|deadline| deadline <= now) {
            self.enter(now, Input::Tick);
        }
        self.settle(now);
    }

    /// Everything that was ready has been handed on: the machine does what it put off. Work that this lets begin is put
    /// off to the end of the next turn, before which the loop does not wait.
    fn end_turn(&mut self) {
        if self.exit.is_none() && self.machine.puts_off() {
            let now = self.not_before(clock::now());
            self.machine.turn_over(now, &mut self.effects);
            self.execute(now, &[]);
            self.settle(now);
        }
    }

    fn take_completions(&mut self) {
        self.stop.waker.clear();
        self.pending.extend(self.completions.try_iter());
        if self.stop.asked.swap(false, Ordering::SeqCst) {
            self.pending.push_back(Pending::Stop);
        }
        let changes = std::mem::take(&mut *self.changes.lock().unwrap_or_else(PoisonError::into_inner));
        changes.into_iter().for_each(|change| change(&mut self.machine));
        self.settle(clock::now());
        self.show_if_asked();
    }

    fn show_if_asked(&mut self) {
        if let Some(show) = self.observer.take_asked() {
            let seen = LoopSeen {
                at: clock::now(),
                network: self.network.stats,
                connections: self.network.connection_count(),
                turns: self.turns.clone(),
                polled: self.polling.polled(),
                waited: usage::waited().unwrap_or_default(),
                processor: usage::processor_time(),
            };
            show(&self.machine, seen);
        }
    }

    /// Feeds what waits, and what that completes, until nothing is left.
    fn settle(&mut self, now: Instant) {
        for _ in 0..PENDING_COUNT_MAX {
            self.pending.extend(self.network.ends.drain(..));
            if self.exit.is_some() {
                return;
            }
            let Some(pending) = self.pending.pop_front() else { return };
            let memory = pending.with_input(|input| self.enter(now, input));
            if let (Some(memory), Some(disk)) = (memory, &self.disk) {
                disk.recycle(memory);
            }
        }
    }

    /// One step of the machine, and its effects.
    fn enter(&mut self, now: Instant, input: Input<'_>) {
        assert!(self.exit.is_none(), "a machine that has ended gets no input");
        let frame = input.frame();
        // A step that processes a whole segment takes milliseconds. The clock is read before and after it, so
        // that the next step of this turn has a time that includes them.
        let is_long = matches!(&input, Input::Disk { result: Ok(bytes), .. } if !bytes.is_empty());
        let now = self.not_before(if is_long { clock::now() } else { now });
        self.machine.step(now, input, &mut self.effects);
        if is_long {
            self.last_step = clock::now();
        }
        self.execute(now, frame);
    }

    /// Steps that come in one turn may be given the time of its beginning, but none an earlier one than the step before.
    fn not_before(&mut self, now: Instant) -> Instant {
        self.last_step = self.last_step.max(now);
        self.last_step
    }

    fn say_last_words(&mut self) {
        let start = clock::now();
        loop {
            let now = clock::now();
            self.network.flush(now);
            let rest = LAST_WORDS.saturating_sub(now.since(start));
            if self.network.is_flushed() || rest.is_zero() {
                return;
            }
            self.network.wait(now, Some(rest), &mut self.ready).expect("the event queue is ours and open");
            for event in std::mem::take(&mut self.ready) {
                // Input that still arrives is ignored.
                let _ = self.network.on_ready(event, now);
            }
        }
    }
}
