//! What all machines of a simulation share, and the daemons on them.

use std::path::PathBuf;
use std::sync::Arc;

use millstream_config::{JobmanagerConfig, Layer, Resolved, Target, TaskmanagerConfig};
use millstream_taskmanager::daemon::DaemonSettings;
use millstream_telemetry::chain;
use millstream_testkit::ChaosStore;

use crate::disk::SharedDisk;
use crate::host::Control;
use crate::net::Names;
use crate::options::Options;
use crate::recorder::Recorder;
use crate::user::Observed;

/// Where checkpoints and jobs are kept: the simulated store stands in for it.
pub const STORE: &str = "s3://simulated";
/// The name under which taskmanagers and users look for the jobmanager.
pub const JOBMANAGER: &str = "jobmanager";
/// Where it listens.
pub const RPC_PORT: u16 = 6123;

/// Everything that outlives the machines.
pub struct World {
    pub options: Options,
    pub names: Names,
    pub objects: ChaosStore<Recorder>,
    pub disk: SharedDisk,
    pub observed: Observed,
}

fn table(settings: &[String]) -> Resolved {
    let settings = settings.iter().map(String::as_str);
    let layer = Layer::flags(settings, Target::Daemon);
    Resolved::new([layer.unwrap_or_else(|errors| panic!("{}", errors.report()))])
}

/// A jobmanager, for as long as it runs.
pub async fn jobmanager(world: Arc<World>, control: Control) -> turmoil::Result {
    if !control.is_on() {
        return std::future::pending().await;
    }
    let (env, signals) = control.begin(&world);
    let table = table(&world.options.jobmanager_settings());
    let config = JobmanagerConfig::new(&table);
    let config = config.unwrap_or_else(|errors| panic!("{}", errors.report()));
    let running = millstream_jobmanager::daemon::run(env, &config, table, signals);
    let end = Box::pin(running).await;
    control.set_end(in_words(end.as_ref().err().map(|error| chain(error))));
    // The machine is there; what its process left behind goes when the simulation notices.
    std::future::pending().await
}

/// A taskmanager, for as long as it runs.
pub async fn taskmanager(world: Arc<World>, control: Control) -> turmoil::Result {
    if !control.is_on() {
        return std::future::pending().await;
    }
    let (env, signals) = control.begin(&world);
    let table = table(&world.options.taskmanager_settings(control.name()));
    let config = TaskmanagerConfig::new(&table);
    let config = config.unwrap_or_else(|errors| panic!("{}", errors.report()));
    let settings = DaemonSettings {
        config,
        table,
        program: PathBuf::new(),
        fail_points: None,
    };
    let running = millstream_taskmanager::daemon::run(env, settings, signals);
    let end = Box::pin(running).await;
    control.set_end(in_words(end.as_ref().err().map(|error| chain(error))));
    // The machine is there; what its process left behind goes when the simulation notices.
    std::future::pending().await
}

fn in_words(error: Option<String>) -> String {
    error.unwrap_or_else(|| "as it was told to".to_owned())
}
