//! What the tests of the whole product share: models, simulations, helpers of the test binaries
//! in `tests/`. Nothing here is shipped.
//!
//! Must never hold: a decision of the product. Models drive the production machines.

pub mod model;
