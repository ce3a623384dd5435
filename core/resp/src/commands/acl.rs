//! Commands about accounts. The front carries them out.

use crate::command::{Command, Flags, Front, Run};

const BASE: Command = Command { group: "server", since: "6.0.0", ..Command::BASE };
const PLAIN: Flags = Flags::NOSCRIPT.with(Flags::ANYTIME).with(Flags::SENTINEL);
const OF_ADMIN: Flags = PLAIN.with(Flags::ADMIN);
const OF_EACH_COMMAND: &str = "O(N) with N the commands there are";
const OF_EACH_USER: &str = "O(N) with N the accounts there are";

pub const ACL: Command = Command {
    name: "acl",
    arity: -2,
    flags: Flags::SENTINEL,
    complexity: "As much as the subcommand takes",
    summary: "Holds what is about accounts and their rules.",
    run: Run::Container(&[
        Command {
            name: "cat",
            arity: -2,
            flags: PLAIN,
            complexity: OF_EACH_COMMAND,
            usage: "[category]",
            summary: "Lists the classes of commands, or the commands of one class.",
            run: Run::Front(Front::AclCat),
            ..BASE
        },
        Command {
            name: "deluser",
            arity: -3,
            flags: OF_ADMIN,
            complexity: "O(1) for each account",
            usage: "username [username ...]",
            summary: "Removes accounts in the whole cluster, and ends their connections.",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            note: "all servers are told; the reply comes when this one knows",
            run: Run::Front(Front::AclDelUser),
            ..BASE
        },
        Command {
            name: "dryrun",
            arity: -4,
            flags: OF_ADMIN,
            since: "7.0.0",
            complexity: "O(1)",
            usage: "username command [arg [arg ...]]",
            summary: "Tells whether an account may do something, without doing it.",
            run: Run::Front(Front::AclDryRun),
            ..BASE
        },
        Command {
            name: "genpass",
            arity: -2,
            flags: PLAIN,
            complexity: "O(1)",
            usage: "[bits]",
            summary: "Makes a random password.",
            run: Run::Front(Front::AclGenPass),
            ..BASE
        },
        Command {
            name: "getuser",
            arity: 3,
            flags: OF_ADMIN,
            complexity: "O(N) with N the rules of the account",
            usage: "username",
            summary: "Shows the rules of an account.",
            note: "passwords are shown as they are stored (argon2id); there is a field `tables`",
            run: Run::Front(Front::AclGetUser),
            ..BASE
        },
        Command {
            name: "help",
            arity: 2,
            flags: Flags::ANYTIME.with(Flags::SENTINEL),
            complexity: "O(1)",
            summary: "Lists the subcommands, each with a line about it.",
            run: Run::Front(Front::Help),
            ..BASE
        },
        Command {
            name: "list",
            arity: 2,
            flags: OF_ADMIN,
            complexity: OF_EACH_USER,
            summary: "Shows the rules of all accounts.",
            note: "passwords are shown as they are stored (argon2id)",
            run: Run::Front(Front::AclList),
            ..BASE
        },
        Command {
            name: "load",
            arity: 2,
            flags: OF_ADMIN,
            complexity: "O(1)",
            summary: "Does nothing: the accounts that all servers have are those that are kept.",
            note: "there is no file of accounts",
            run: Run::Front(Front::AclFile),
            ..BASE
        },
        Command {
            name: "log",
            arity: -2,
            flags: OF_ADMIN,
            complexity: "O(N) with N the entries shown",
            usage: "[count | RESET]",
            summary: "Shows what this server refused for want of a right, and logins that failed.",
            run: Run::Front(Front::AclLog),
            ..BASE
        },
        Command {
            name: "save",
            arity: 2,
            flags: OF_ADMIN,
            complexity: "O(1)",
            summary: "Does nothing: every change of an account is kept before it is answered.",
            note: "there is no file of accounts",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            run: Run::Front(Front::AclFile),
            ..BASE
        },
        Command {
            name: "setuser",
            arity: -3,
            flags: OF_ADMIN,
            complexity: "O(N) with N the rules",
            usage: "username [rule [rule ...]]",
            summary: "Makes an account or changes its rules, in the whole cluster.",
            tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
            note: "all servers are told; the reply comes when this one knows. Rules `table=`, `cert=` and `secret=` are \
                   Ramhold's (docs/protocols/access.md)",
            run: Run::Front(Front::AclSetUser),
            ..BASE
        },
        Command {
            name: "users",
            arity: 2,
            flags: OF_ADMIN,
            complexity: OF_EACH_USER,
            summary: "Lists the names of all accounts.",
            run: Run::Front(Front::AclUsers),
            ..BASE
        },
        Command {
            name: "whoami",
            arity: 2,
            flags: PLAIN,
            complexity: "O(1)",
            summary: "Tells the account of the connection.",
            run: Run::Front(Front::AclWhoAmI),
            ..BASE
        },
    ]),
    ..BASE
};
