//! `CONFIG`: the settings that clients may see, and the few that they may change for this process.

use crate::fault::shown;
use crate::front::config::{RespConfig, TimingConfig};
use crate::front::step::Step;
use crate::parse::integer;
use crate::{Fault, Front, Reply};
use ramhold_base::glob::{Case, matches};
use std::time::Duration;

/// All settings of `CONFIG GET`, with their values.
fn settings(config: &RespConfig, timing: &TimingConfig) -> Vec<(&'static str, String)> {
    vec![
        ("appendonly", "no".into()),
        ("databases", config.databases.to_string()),
        ("latency-monitor-threshold", timing.latency_threshold.as_millis().to_string()),
        ("maxmemory-policy", "noeviction".into()),
        ("save", String::new()),
        ("slowlog-log-slower-than", timing.slow.as_micros().to_string()),
        ("slowlog-max-len", timing.slow_count_max.to_string()),
        ("timeout", "0".into()),
    ]
}

/// Carries out `CONFIG …`.
pub fn config<H>(
    step: &mut Step<'_, H>,
    timing: &mut TimingConfig,
    front: Front,
    args: &[&[u8]],
    mut reply: Reply<'_>,
) {
    match front {
        Front::ConfigGet => {
            let settings = settings(step.config, timing);
            let is_asked =
                |name: &str| args[2..].iter().any(|pattern| matches(pattern, name.as_bytes(), Case::Ignored));
            let found: Vec<_> = settings.iter().filter(|(name, _)| is_asked(name)).collect();
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        Front::ConfigSet => {
            if args.len() % 2 == 1 {
                return reply.fault(&Fault::SYNTAX);
            }
            let mut changed = *timing;
            for pair in args[2..].chunks(2) {
                if let Err(fault) = set(step.config, &mut changed, pair[0], pair[1]) {
                    return reply.fault(&fault);
                }
            }
            *timing = changed;
            reply.ok();
        }
        _ => {
            *step.stats = Default::default();
            reply.ok();
        }
    }
}

fn set(config: &RespConfig, timing: &mut TimingConfig, name: &[u8], value: &[u8]) -> Result<(), Fault> {
    let word = shown(name).to_ascii_lowercase();
    let failed = |why: &str| {
        Fault::said(format!("ERR CONFIG SET failed (possibly related to argument '{word}') - argument {why}"))
    };
    let number = || {
        let number = integer(value).ok_or_else(|| failed("couldn't be parsed into an integer"))?;
        u64::try_from(number).map_err(|_| failed("must be between 0 and 9223372036854775807 inclusive"))
    };
    match word.as_str() {
        "latency-monitor-threshold" => timing.latency_threshold = Duration::from_millis(number()?),
        "slowlog-log-slower-than" => timing.slow = Duration::from_micros(number()?),
        "slowlog-max-len" => timing.slow_count_max = number()?.min(100_000) as usize,
        name if settings(config, timing).iter().any(|(known, _)| *known == name) => {
            return Err(Fault::said(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - can't set immutable config"
            )));
        }
        _ => {
            return Err(Fault::said(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                shown(name)
            )));
        }
    }
    Ok(())
}
