//! The metrics and the health of each kind of process.

mod brick;
mod coordinator;
mod parts;
mod server;

use crate::page::Page;
use ramhold_base::Instant;
use ramhold_runtime::LoopSeen;

/// The state of a machine, as `/metrics`, `/health` and `/ready` tell it.
pub trait Role: Send + Sync + 'static {
    /// `server`, `brick` or `coordinator`.
    const NAME: &'static str;

    /// Why it does not serve, as a word and a sentence; none: it does.
    fn trouble(&self) -> Option<(&str, &str)>;

    /// Lines that `/health` and `/ready` tell besides, each with one fact: nothing in them makes the process unhealthy.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Trouble that an operator should mend although it serves, in one sentence; none: nothing.
    fn degraded(&self) -> Option<String>;

    fn write(&self, page: &mut Page);
}

/// Everything about a process. `last` is what was shown last, which is old when `is_stuck`.
pub fn write_page<R: Role>(
    page: &mut Page,
    now: Instant,
    last_turn: Instant,
    last: Option<(&LoopSeen, &R)>,
    is_stuck: bool,
) {
    let is_serving = !is_stuck && last.is_some_and(|(_, role)| role.trouble().is_none());
    page.info(
        "ramhold_build_info",
        "Always 1; which program this is, and what it does.",
        &[("version", env!("CARGO_PKG_VERSION")), ("role", R::NAME)],
    );
    page.gauge("ramhold_serving", "1 while /ready answers 200, otherwise 0.", is_serving);
    let is_degraded = is_serving && last.is_some_and(|(_, role)| role.degraded().is_some());
    page.gauge("ramhold_degraded", "1 while /ready answers 'serving, degraded', otherwise 0.", is_degraded);
    page.gauge(
        "ramhold_turn_age_seconds",
        "Since the event loop last began a turn. Each scrape wakes it: with more than a second it is stuck.",
        now.since(last_turn),
    );
    let Some((of_loop, role)) = last else { return };
    page.gauge(
        "ramhold_figures_age_seconds",
        "Since all other figures were taken; small, unless the loop is stuck.",
        now.since(of_loop.at),
    );
    write_loop(page, of_loop);
    role.write(page);
}

fn write_loop(page: &mut Page, of_loop: &LoopSeen) {
    page.histogram(
        "ramhold_turn_seconds",
        "Turns of the event loop that took something in: from waking up until answers are about to be sent.",
        [(None, &of_loop.turns)],
    );
    write_polled(page, of_loop);
    let stats = &of_loop.network;
    page.gauge(
        "ramhold_connections",
        "Connections that are open, of clients and between processes of the cluster, the admin port not counted.",
        of_loop.connections as u64,
    );
    for (name, help, value) in [
        ("ramhold_connections_accepted_total", "Connections accepted.", stats.connections_accepted),
        (
            "ramhold_connections_refused_total",
            "Connections closed at once because there were too many.",
            stats.connections_refused,
        ),
        (
            "ramhold_connections_opened_total",
            "Connections opened to other processes.",
            stats.connections_opened,
        ),
        ("ramhold_network_received_bytes_total", "Bytes received.", stats.bytes_received),
        ("ramhold_network_sent_bytes_total", "Bytes sent.", stats.bytes_sent),
        (
            "ramhold_network_frames_received_total",
            "Frames of the native protocol received, and pieces of Redis traffic.",
            stats.frames_received,
        ),
        (
            "ramhold_network_frames_bad_total",
            "Connections closed because their bytes were no frame.",
            stats.bad_frames,
        ),
        (
            "ramhold_network_frames_overdue_total",
            "Connections closed because a frame took too long.",
            stats.frames_overdue,
        ),
        (
            "ramhold_network_frames_dropped_total",
            "Frames for connections that were gone or closing.",
            stats.frames_dropped,
        ),
        (
            "ramhold_network_output_overflows_total",
            "Connections closed because too much waited to go out.",
            stats.output_overflows,
        ),
        (
            "ramhold_network_outputs_overdue_total",
            "Connections closed because what they had asked for was fetched too slowly.",
            stats.outputs_overdue,
        ),
        (
            "ramhold_network_looks_at_first_total",
            "Times that the connections of the cluster were looked at while clients' requests were handed on.",
            stats.looks_at_first,
        ),
        (
            "ramhold_connections_shared_total",
            "Connections over memory shared with a process of this host, accepted and opened.",
            stats.connections_shared,
        ),
        (
            "ramhold_connections_memory_refused_total",
            "Connections of this host over a Unix socket because too many processes share memory already.",
            stats.memory_refused,
        ),
        (
            "ramhold_network_names_left_total",
            "Times that processes of this host were sent to TCP because too many of other users connected.",
            stats.names_left,
        ),
        (
            "ramhold_network_hellos_refused_total",
            "Connections of this host closed because their user was another one or their hello was wrong.",
            stats.hellos_refused,
        ),
        (
            "ramhold_network_accept_pauses_total",
            "Times that accepting was paused for want of file descriptors or memory.",
            stats.accept_pauses,
        ),
    ] {
        page.counter(name, help, value);
    }
}

/// How the loop waits, and the processor time that it takes for that.
fn write_polled(page: &mut Page, of_loop: &LoopSeen) {
    let polled = of_loop.polled;
    page.counter(
        "ramhold_loop_shared_total",
        "Times that the event loop slept early because others used its core while it looked for work.",
        polled.shared,
    );
    page.counter("ramhold_loop_sleeps_total", "Times that the event loop slept.", polled.sleeps);
    page.counter(
        "ramhold_loop_idle_seconds_total",
        "Processor time for which the event loop looked for work and found none.",
        polled.idle,
    );
    page.counter(
        "ramhold_loop_waited_seconds_total",
        "Time for which the event loop's thread was ready to run and others had the cores.",
        of_loop.waited,
    );
    page.counter(
        "ramhold_processor_seconds_total",
        "Processor time of the process. Less the idle time of the event loop it is the time for work.",
        of_loop.processor,
    );
}
