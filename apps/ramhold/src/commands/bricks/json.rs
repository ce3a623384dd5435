//! The bricks for programs. Names are stable.

use super::condition::{Condition, findings, verdict};
use super::survey::{Found, Survey};
use ramhold_client::{AsksStatus, BrickLimit, BrickStatus, SiblingStatus};
use ramhold_wire::brick_status::{QueueStatus, RefusingStatus, StalledStatus};
use ramhold_wire::statistics::{Queue, Statistic};
use serde_json::{Map, Value, json};

pub fn survey(survey: &Survey) -> Value {
    let findings = findings(survey);
    let told = findings
        .iter()
        .map(|finding| json!({ "grade": finding.grade.name(), "what": finding.what, "do": finding.action }));
    json!({
        "verdict": verdict(survey, &findings).0.verdict(),
        "findings": told.collect::<Vec<_>>(),
        "coordinator_answers": survey.coordinator.is_none(),
        "bricks": survey.bricks.iter().map(brick).collect::<Vec<_>>(),
    })
}

fn brick(brick: &Found) -> Value {
    let labels: Map<String, Value> =
        brick.labels.iter().map(|label| (label.name.clone(), label.value.clone().into())).collect();
    let status = brick.told.as_ref().ok();
    let own = status.and_then(|status| status.brick.as_ref());
    let condition = Condition::of(brick);
    let rebuilt = match condition {
        Condition::Rebuilding(percent) => Some(percent),
        _ => None,
    };
    let mut value = json!({
        "id": brick.id.raw(),
        "address": brick.address.to_string(),
        "labels": labels,
        "life": brick.life,
        "state": condition.name(),
        "rebuilt_percent": rebuilt,
        "heard_millis": brick.heard_millis,
        "tablets": brick.tablets,
        "scaling": brick.scaling.as_ref().map(|order| &order.text),
        "error": brick.told.as_ref().err(),
    });
    if let (Some(status), Some(own), Value::Object(fields)) = (status, own, &mut value) {
        let figures = json!({
            "version": status.version,
            "uptime_millis": status.uptime_millis,
            "memory_bytes": status.memory_bytes,
            "log_bytes": status.log_bytes,
            "log_used_bytes": status.log_used_bytes,
            "log_live_bytes": status.log_live_bytes,
            "index_bytes": status.index_bytes,
            "objects": status.objects,
        });
        fields.extend(figures.as_object().cloned().unwrap_or_default());
        fields.extend(own_fields(own));
    }
    value
}

fn own_fields(own: &BrickStatus) -> Map<String, Value> {
    let rebuilding = own.rebuilding.map(|rebuilding| {
        json!({
            "table": rebuilding.table.raw(),
            "first": format!("{:016x}", rebuilding.first.0),
            "last": format!("{:016x}", rebuilding.last.0),
            "permille": rebuilding.permille,
        })
    });
    let queues =
        Queue::ALL.into_iter().zip(&own.queues).map(|(queue, it)| (queue.name().to_owned(), waits(it)));
    let fields = json!({
        "tablets_without_vote": own.without_vote,
        "waits_for": waits_for(own),
        "rebuilding": rebuilding,
        "loaded_permille": own.loaded_permille,
        "siblings": own.siblings.iter().map(sibling).collect::<Vec<_>>(),
        "gets": asks(&own.gets),
        "puts": asks(&own.puts),
        "stamps": asks(&own.stamps),
        "repairs": own.repairs,
        "swept_keys": own.sweep.stored,
        "ended_keys": own.sweep.ended,
        "sweeps": own.sweep.whole,
        "last_sweep_millis": own.sweep.whole_millis,
        "keys_behind": own.sweep.behind,
        "keys_behind_millis": own.sweep.behind_millis,
        "graves": own.graves,
        "graves_gone": own.graves_gone,
        "queues": queues.collect::<Map<String, Value>>(),
        "flagged": own.flagged.map(|flags| flags.all().map(Statistic::name).collect::<Vec<_>>()),
        "bricks_reporting": own.reporting,
        "rebuild_read_bytes": own.rebuild_read,
        "rebuild_stored_bytes": own.rebuild_stored,
        "full": own.full.map(BrickLimit::name),
        "tablets_without_room": own.waits_for_room,
        "rebuild_stalled": own.stalled.as_ref().map(stalled),
    });
    fields.as_object().cloned().unwrap_or_default()
}

fn stalled(stalled: &StalledStatus) -> Value {
    let refusing = |it: &RefusingStatus| json!({ "id": it.brick.raw(), "status": it.status });
    json!({
        "obstacle": stalled.obstacle.name(),
        "millis": stalled.millis,
        "bricks": stalled.bricks.iter().map(refusing).collect::<Vec<_>>(),
    })
}

fn waits_for(own: &BrickStatus) -> Vec<u64> {
    let mut awaited: Vec<u64> =
        own.tablets.iter().flat_map(|tablet| &tablet.waits_for).map(|brick| brick.raw()).collect();
    awaited.sort_unstable();
    awaited.dedup();
    awaited
}

fn sibling(sibling: &SiblingStatus) -> Value {
    json!({
        "id": sibling.brick.raw(),
        "address": sibling.address.0.to_string(),
        "life": sibling.life,
        "heard_millis": sibling.heard_millis,
        "is_silent": sibling.is_silent,
        "is_offline": sibling.is_offline,
    })
}

fn waits(queue: &QueueStatus) -> Value {
    json!({
        "length": queue.length,
        "dropped": queue.dropped,
        "delay_nanos": queue.delay_nanos,
        "latency_nanos": queue.latency_nanos,
    })
}

fn asks(asks: &AsksStatus) -> Value {
    json!({
        "asked": asks.asked,
        "answered": asks.answered,
        "rejected": asks.rejected,
        "unknown": asks.unknown,
        "refused": asks.refused,
    })
}
