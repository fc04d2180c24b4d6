//! The ends of channels that belong to tasks, as the data plane uses them.

use millstream_exchange::queue::Popped;
use millstream_exchange::{Control, Element, Feedback};

/// What a task sends to another process comes out here.
pub trait Outlet: Send {
    /// What overtook the line, if anything did.
    fn pop_control(&self) -> Option<Control>;
    /// The next thing: what overtook first, then the line.
    fn pop(&self) -> Option<Popped>;
    /// Tells the producer what its consumer says.
    fn send_feedback(&self, feedback: Feedback);
}

/// What a task of another process sends goes in here. Never refuses: credit bounds it.
pub trait Inlet: Send {
    /// Puts an element in line.
    fn push(&self, element: Element);
    /// Lets something overtake the line.
    fn push_control(&self, control: Control);
    /// What the consumer said since the last call.
    fn take_feedback(&self) -> Option<Feedback>;
}
