//! The parts of the front that a step works on. Each owns its state; none knows the ones before it here.

use super::line::Lines;
use crate::front::access::Access;
use crate::front::clients::list::Clients;

pub struct Parts {
    pub lines: Lines,
    pub clients: Clients,
    pub access: Access,
}
