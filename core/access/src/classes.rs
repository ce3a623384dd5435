//! Classes of commands: Redis's categories.
//!
//! Not here: which command is in which class (the doors tell: `catalog`).

use std::fmt;

macro_rules! classes {
    ($($class:ident $name:literal,)*) => {
        /// A class of commands. Classes of types that Ramhold does not have are known, too: rules that come from Redis
        /// name them, and they have no commands.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Class {
            $($class,)*
        }

        impl Class {
            /// All of them, in Redis's order.
            pub const ALL: &'static [Class] = &[$(Class::$class,)*];

            /// The name behind the `@`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Class::$class => $name,)*
                }
            }
        }
    };
}

classes! {
    Keyspace "keyspace",
    Read "read",
    Write "write",
    Set "set",
    SortedSet "sortedset",
    List "list",
    Hash "hash",
    String "string",
    Bitmap "bitmap",
    HyperLogLog "hyperloglog",
    Geo "geo",
    Stream "stream",
    PubSub "pubsub",
    Admin "admin",
    Fast "fast",
    Slow "slow",
    Blocking "blocking",
    Dangerous "dangerous",
    Connection "connection",
    Transaction "transaction",
    Scripting "scripting",
}

impl Class {
    /// The class with this name; the case does not matter.
    pub fn of(name: &str) -> Option<Class> {
        Class::ALL.iter().copied().find(|class| class.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.name())
    }
}

/// A set of classes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Classes(u32);

impl Classes {
    pub const NONE: Classes = Classes(0);

    #[must_use]
    pub fn with(self, class: Class) -> Classes {
        Classes(self.0 | 1 << class as u32)
    }

    pub fn has(self, class: Class) -> bool {
        self.0 & (1 << class as u32) != 0
    }
}

impl FromIterator<Class> for Classes {
    fn from_iter<I: IntoIterator<Item = Class>>(classes: I) -> Classes {
        classes.into_iter().fold(Classes::NONE, Classes::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_by_its_name() {
        for class in Class::ALL {
            assert_eq!(Class::of(class.name()), Some(*class));
            assert_eq!(Class::of(&class.name().to_uppercase()), Some(*class));
            let classes = Classes::from_iter([*class]);
            assert_eq!(Class::ALL.iter().filter(|other| classes.has(**other)).count(), 1);
        }
        assert_eq!(Class::of("@read"), None);
        assert_eq!(Class::of("all"), None, "all commands are no class");
    }
}
