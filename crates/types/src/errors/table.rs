//! The catalogue itself. New entries go to the end of their group; the code of one that is not used
//! any more moves to [`RETIRED`].

use super::{ErrorCode, ErrorEntry};

macro_rules! catalogue {
    ($($name:ident $code:literal $text:literal $cause:literal $remedy:literal;)*) => {
        $(
            #[doc = $cause]
            pub const $name: ErrorCode = ErrorCode($code);
        )*

        /// All kinds of errors, in order of their groups and codes.
        pub const CATALOGUE: &[ErrorEntry] = &[$(ErrorEntry {
            code: $name,
            name: stringify!($name),
            text: $text,
            cause: $cause,
            remedy: $remedy,
        }),*];
    };
}

/// The groups, and what they are about.
pub const GROUPS: &[(&str, &str)] = &[
    ("USE", "the command line and the process"),
    ("CONF", "configuration and settings"),
    ("JOB", "job files"),
    ("EXPR", "expressions"),
    ("SUBM", "submitting, finding and ending jobs"),
    ("CONN", "reaching a cluster"),
    ("NET", "listening"),
    ("STORE", "storage"),
    ("STATE", "checkpoints and what a job is restored from"),
    ("FAIL", "how jobs fail"),
];

/// Codes that were used once.
pub const RETIRED: &[&str] = &[];

catalogue! {
    ARGUMENTS "USE-0001" "{what}"
        "A command, an argument or a flag is unknown, missing or malformed."
        "Look at the usage that is shown, or ask for it with --help.";
    LOG_FILTER "USE-0002" "{filter} is no log level"
        "The filter of the log is neither a level nor a list of `module=level`."
        "Give error, warn, info or debug, or a list such as info,millstream_rpc=debug.";
    FAIL_POINTS "USE-0003" "MILLSTREAM_FAIL_POINTS is refused"
        "The variable names fail points, which tests use to break a process, and is malformed or not for this build."
        "Unset MILLSTREAM_FAIL_POINTS.";
    OUTPUT "USE-0004" "{what} cannot be printed"
        "Standard output is closed, or what it leads to is full."
        "Read the output to its end, or direct it to a place with room.";
    PROCESS "USE-0005" "{what}"
        "The operating system refuses this process a thread, a signal or a process of its own."
        "Raise the limits of processes and open files of this user.";
    LOG_START "USE-0006" "there is no log"
        "The log cannot be started as configured."
        "Correct log.level and log.format.";

    CONF_FILE "CONF-0001" "configuration file {path} cannot be read"
        "The file is not there, is a directory, or may not be read."
        "Check the path given by --config or MILLSTREAM_CONFIG, and the rights to read it.";
    CONF_TEXT "CONF-0002" "configuration file {path} is no text"
        "The file holds bytes that are not UTF-8."
        "Save it as UTF-8.";
    CONF_YAML "CONF-0003" "{file}: {what}"
        "The text is not YAML, or uses a part of YAML that is not accepted (anchors, tags, several documents)."
        "Correct the line; a text with ':', '#', '{' or '[' belongs in quotes.";
    CONF_SHAPE "CONF-0004" "{what} expected {wanted}"
        "A value stands where keys belong, or the other way round."
        "Write keys and values, one `key: value` a line.";
    CONF_UNKNOWN_KEY "CONF-0005" "unknown key {key}"
        "No setting has this name; a typo, or a setting of another version."
        "Compare with docs/reference/configuration.md; --print-config of the daemons lists all keys.";
    CONF_UNKNOWN_VARIABLE "CONF-0006" "unknown environment variable {variable}"
        "A variable that begins with MILLSTREAM_ sets nothing."
        "Correct its name, or unset it; names are those of the keys in capitals, with _ for dots and dashes.";
    CONF_FLAG "CONF-0007" "flag -D {flag} sets no value"
        "A setting was given without `=`."
        "Write -D key=value.";
    CONF_NOT_IN_JOBS "CONF-0008" "{key} is a key of the daemons, not of a job"
        "A job sets what only the configuration of jobmanager and taskmanagers can."
        "Move the key to the configuration of the daemons.";
    CONF_NOT_BUILT "CONF-0009" "{key} is {what} not built yet: {missing}"
        "The key or value is known from Flink and has no effect here so far."
        "Remove the key, or use another value.";
    CONF_VALUE "CONF-0010" "{key} {what}"
        "The value is not of the key's type, not one of its words, or beyond its bounds."
        "Set the key to a value that docs/reference/configuration.md allows.";
    CONF_NO_UNIT "CONF-0011" "{key} has no unit: write {readings}"
        "A number alone says neither seconds nor milliseconds, neither bytes nor kilobytes."
        "Write the unit that is meant: 10s, 500ms, 64 MiB.";
    CONF_LITERAL_SECRET "CONF-0012" "{key} is written out; a secret is given by reference only"
        "A secret stands in the configuration, where it would be shown and copied."
        "Write { file: /path } or { env: NAME }.";
    CONF_TWICE "CONF-0013" "{key} is given twice"
        "One key has two values in the same place, perhaps by two of its names."
        "Keep one of the two.";
    CONF_CONFLICT "CONF-0014" "{what}"
        "Two values are good alone and not together."
        "Change one of the two keys that are named.";
    CONF_UNPROTECTED "CONF-0015" "{key} is {host}: listening beyond loopback without security.transport is refused"
        "A daemon would listen on a network that others reach, without protection and without anybody having said so."
        "Listen on 127.0.0.1, or set security.transport: plaintext if the network is closed.";
    CONF_MISSING "CONF-0016" "{key} is not set: {because}"
        "A key without a default is needed here."
        "Set the key.";
    CONF_SECRET "CONF-0017" "{key}: {what}"
        "A secret is not where the configuration says: no such file or variable, not readable, or empty."
        "Put the secret there, readable for the user of the daemon.";

    JOB_FILE "JOB-0001" "{path} cannot be read"
        "The job file is not there, is a directory, or may not be read."
        "Give the path of a job file, such as docs/examples/word-count.yaml.";
    JOB_TEXT "JOB-0002" "{path} is not UTF-8 text"
        "The job file holds bytes that are not UTF-8."
        "Save the job file as UTF-8.";
    JOB_YAML "JOB-0003" "{what}"
        "The job file is not YAML, or uses a part of YAML that is not accepted."
        "Correct the line that is shown.";
    JOB_UNKNOWN_STEP "JOB-0004" "there is no step {name}"
        "The pipeline names a step that does not exist."
        "Compare with docs/reference/job-file.md.";
    JOB_UNKNOWN_KEY "JOB-0005" "{of} has no key {name}"
        "A step has a key that it does not take; a typo, or a key of another step."
        "Compare with docs/reference/job-file.md.";
    JOB_MISSING_KEY "JOB-0006" "{of} needs {key}"
        "A step lacks a key without which it means nothing."
        "Add the key.";
    JOB_NOT_BUILT "JOB-0007" "{key} is known, not built yet: {what}"
        "The key has no effect so far."
        "Remove the key.";
    JOB_NO_EFFECT "JOB-0008" "{key} has no effect with {other} {found}"
        "A key does nothing beside the other keys of its step."
        "Remove the key, or change the other one.";
    JOB_VALUE "JOB-0009" "{key} {what}"
        "A key of a step has a value that it does not take."
        "Set it to an allowed value, see docs/reference/job-file.md.";
    JOB_TYPE "JOB-0010" "{found} is not a column type"
        "A column is declared with a type that does not exist."
        "Use one of the types in docs/reference/job-file.md.";
    JOB_UNKNOWN_COLUMN "JOB-0011" "the input has no column {name}"
        "A step names a column that the steps before it do not give."
        "Use one of the columns that are named.";
    JOB_UNKNOWN_UID "JOB-0012" "no step above has the uid {uid}"
        "`from` leads nowhere."
        "Use the uid of a step that stands above.";
    JOB_DUPLICATE_UID "JOB-0013" "uid {uid} is used by {first} and {second}"
        "Two steps have the same uid, by which state is found."
        "Give one of the two another uid.";
    JOB_MISSING_UID "JOB-0014" "{step} keeps state and has no uid"
        "The job asks for uids (pipeline.require-uids), and a step with state has none."
        "Add a uid: a name that stays the same.";
    JOB_LIMIT "JOB-0015" "{what} above the limit of {limit}"
        "The job is larger than what is read."
        "Split the job.";
    JOB_STRUCTURE "JOB-0016" "{what}"
        "Steps or keys are good alone and not together."
        "Change the steps as the message says.";

    EXPR_SYNTAX "EXPR-0001" "{what}"
        "The text is not a SQL expression."
        "Write what may stand between SELECT and FROM.";
    EXPR_UNKNOWN_COLUMN "EXPR-0002" "unknown column {name}"
        "The input has no column of this name; text without single quotes is taken for one."
        "Use one of the columns that are named; write text in single quotes.";
    EXPR_UNKNOWN_FUNCTION "EXPR-0003" "unknown function {name}"
        "There is no function of this name."
        "Use one of the functions in the reference of expressions.";
    EXPR_TYPE "EXPR-0004" "{what}"
        "An operator or function does not take the types it is given, or a condition is not BOOLEAN."
        "Cast the values, or compare them with something.";
    EXPR_REFUSED "EXPR-0005" "{what}"
        "SQL has this, and an expression of a job must not: it depends on time, chance or other rows."
        "Use what the message proposes.";
    EXPR_SIZE "EXPR-0006" "the expression {what}"
        "The expression is longer or deeper than what is planned."
        "Split it into several select or filter steps.";
    EXPR_PATTERN "EXPR-0007" "{what}"
        "A regular expression cannot be used."
        "Correct the pattern as the message says.";
    EXPR_ALWAYS_FAILS "EXPR-0008" "this fails for every row: {fault}"
        "A constant part of the expression has no value."
        "Correct the constants.";
    EXPR_DUPLICATE_COLUMN "EXPR-0009" "the input has two columns named {name}"
        "No expression can tell the two columns apart."
        "Rename one of them in a select step.";
    EXPR_INTERNAL "EXPR-0010" "the expression cannot be planned: {message}"
        "The planner has a fault; it is not the job's."
        "Please report the expression as a bug.";

    SUBM_REFUSED "SUBM-0001" "{what}"
        "The cluster does not carry out what was asked, since the request itself is at fault."
        "Correct what the message names.";
    SUBM_GRAPH "SUBM-0002" "the job{what}"
        "The graph or plan of the job has no sound shape."
        "Correct the job as the message says; a graph that a tool wrote is the tool's fault.";
    SUBM_FAULT_INJECTION "SUBM-0003" "operator {uid} injects faults, and pipeline.allow-fault-injection is false"
        "The job has a step that breaks jobs on purpose, and nobody allowed that."
        "Remove the inject step, or set pipeline.allow-fault-injection: true in a job that may break.";
    SUBM_MISSING_UIDS "SUBM-0004" "operators {names} have state and no uid"
        "The cluster or the job asks for uids, by which state is found."
        "Give each of them a uid, or set pipeline.require-uids: false.";
    SUBM_NO_CHECKPOINTS "SUBM-0005" "file sink {uid} shows its rows when a checkpoint completes, and checkpointing is off"
        "Without checkpoints nothing of the sink's output would ever become visible."
        "Set checkpointing.interval, for example to 10s.";
    SUBM_CLIENT_ID "SUBM-0006" "the client id of the submission is refused"
        "The client's id of a submission has another form than 1 to 128 visible ASCII characters."
        "Use letters, digits and dashes.";
    SUBM_CLIENT_ID_TAKEN "SUBM-0007" "client id {id} was used to submit job {job}"
        "The same client id came with another job before."
        "Use a new client id for each job.";
    SUBM_TOO_MANY_TASKS "SUBM-0008" "the job cannot run in one process: {what}"
        "Each task of a local run has a thread, and one process runs so many only."
        "Lower parallelism (parallelism.default, or that of a step), or run the job on a cluster with millstream run.";
    SUBM_OTHER_JOB "SUBM-0009" "{dir} holds a job of another job file, or of the same with other settings"
        "The directory of a local run is that of a job which has not ended, and this is another job."
        "Give another directory with --dir; or delete this one, and with it that job's state.";
    SUBM_UNKNOWN_JOB "SUBM-0010" "job {job} is not known"
        "The cluster has no such job: the id is mistyped, of another cluster, or was forgotten long after its end."
        "List the jobs with millstream list --all.";
    SUBM_NOT_OWNED "SUBM-0011" "job {job} is {status} here and cannot be cancelled: {why}"
        "This jobmanager does not own the job: it is suspended, or runs elsewhere."
        "Ask the jobmanager that owns it, or do what its last failure in millstream status asks for.";
    SUBM_NOT_STORED "SUBM-0012" "storage did not take job {job} within {time}"
        "The storage of jobs did not answer in time; whether it has the job is not known."
        "Check that the storage answers; then submit again, with the same client id.";

    NOBODY_LISTENS "CONN-0001" "cannot reach {address}: connection refused, nothing listens there"
        "No program listens at the address: the jobmanager does not run, or listens elsewhere."
        "Start the jobmanager, or give its gRPC address with -m HOST:PORT (port 6123 by default).";
    UNKNOWN_HOST "CONN-0002" "cannot reach {address}: the host name cannot be resolved"
        "The name service knows no address of this name."
        "Check the spelling of the host and the name service.";
    NO_ANSWER "CONN-0003" "cannot reach {address}: no answer within {time}"
        "Packets are lost on the way, the host is down, or something else listens there and says nothing."
        "Check the network and firewalls between this host and that address, and that the port is the jobmanager's gRPC port.";
    UNREACHABLE "CONN-0004" "cannot reach {address}: {cause}"
        "The network refuses the connection."
        "Check the network and firewalls between this host and that address.";
    OTHER_SERVER "CONN-0005" "{address} answers, but not as a Millstream {what} does"
        "Something else listens at the address, such as the REST server or another program."
        "Check the port: gRPC is 6123 by default, 8081 is the web page.";
    NO_ADDRESS "CONN-0006" "{address} is no address"
        "The text is not of the form host:port."
        "Write the address as host:port, IPv6 as [::1]:6123.";
    CONNECTION_LOST "CONN-0007" "the connection to {address} broke"
        "The jobmanager ended or the network failed during a request; whether it was carried out is not known."
        "Check that the jobmanager runs, then try again: submitting again with the same client id is safe.";
    NOT_NOW "CONN-0008" "{what}"
        "The jobmanager cannot do now what was asked; it is starting, ending, or waiting for its storage."
        "Try again when the jobmanager runs: submitting again with the same client id is safe.";
    OTHER_VERSION "CONN-0009" "{what}"
        "The jobmanager does not know the request, or its answer is not understood."
        "Run the same version of Millstream on both sides.";
    SERVER_FAULT "CONN-0010" "{address} failed: {what}"
        "The jobmanager has a fault."
        "Look into the log of the jobmanager, and report it as a bug.";
    NO_JOBMANAGER "CONN-0011" "no jobmanager at {address} took this taskmanager in for {time}"
        "The taskmanager looked for its jobmanager for all of taskmanager.registration.timeout and ended."
        "Check jobmanager.rpc.address and jobmanager.rpc.port, and that the jobmanager runs.";

    PORT_TAKEN "NET-0001" "{what} cannot listen on {address}: the port is taken"
        "Another program, perhaps another jobmanager, listens there already."
        "End what listens there, or set the key of the port to another one.";
    CANNOT_LISTEN "NET-0002" "{what} cannot listen on {address}"
        "The address is not of this machine, or its port may not be used by this user (below 1024)."
        "Set the keys of host and port to what this user may listen on.";
    BIND_HOST "NET-0003" "{key} is {host}, which is no address of this machine"
        "The host to listen on cannot be resolved."
        "Set the key to an address, such as 127.0.0.1.";
    SERVER_ENDED "NET-0004" "{what} ended: {cause}"
        "A server of the jobmanager ended by itself."
        "Start the jobmanager again: it resumes its jobs.";

    STORE_LOCATION "STORE-0001" "storage location {found} is not one: {reason}"
        "The text does not say where: a relative path, an unknown scheme, no bucket."
        "Give an absolute path, file:///path or s3://bucket/prefix that all jobmanagers and taskmanagers see.";
    STORE_OPTIONS "STORE-0002" "storage {location}: {what}"
        "The options of the store do not fit together."
        "Check s3.endpoint, s3.region and keys.";
    STORE_LIES "STORE-0003" "storage {location} cannot be used: it {what}"
        "The store does not honour conditional writes, or does not keep what was written: two jobmanagers could both own a job."
        "Use a store that honours `If-None-Match: *` on PUT, reached without a cache, or a directory on a POSIX file system.";
    STORE_UNAVAILABLE "STORE-0004" "{operation} {object}: no success in {n} attempts within {time}"
        "The store cannot be reached, does not answer in time, throttles, or its directory cannot be made."
        "Check the directory or server: whether it is there and answers.";
    STORE_REFUSED "STORE-0005" "{operation} {object} was refused by the store"
        "The store says no: wrong keys, no rights, no such bucket, or no such directory."
        "Check the credentials, their rights to list, read, write and delete, and the bucket or directory.";
    STORE_FULL "STORE-0006" "{operation} {object}: no success in {n} attempts within {time}"
        "There is no room: the disk is full, or its inodes or a quota are used up."
        "Make room where the storage is.";
    STORE_NOT_FOUND "STORE-0007" "{object} does not exist"
        "Something else deleted an object that is needed (lifecycle rules of a bucket, a clean-up script)."
        "Put it back from a copy, or restore from another checkpoint.";
    STORE_TAKEN "STORE-0008" "{object} exists already and was written by another"
        "Another cluster writes to the same directory."
        "Check that no other cluster uses the same storage directory.";
    STORE_CORRUPT "STORE-0009" "{object} is corrupt: {mismatch}"
        "The object is not what was stored: cut short, overwritten or damaged."
        "Restore from another checkpoint; keep the object for the analysis of the storage.";
    STORE_CANCELLED "STORE-0010" "{operation} {object} was cancelled"
        "The operation was given up since its task or process ends."
        "None: it was asked for.";
    STORE_OTHER_CLUSTER "STORE-0011" "{directory} belongs to cluster {found}, this is cluster {ours}"
        "The directory was taken by a cluster of another name, and two clusters must not share one."
        "Give this cluster a storage directory of its own; only if the other one is gone for good, set high-availability.cluster-id to its name here.";
    STORE_NOT_SHARED "STORE-0012" "the jobmanager at {address} keeps checkpoints in {location}, which is not {location} as host {host} sees it"
        "The same path, or the same bucket, is something else on the taskmanager's machine."
        "Mount one shared directory on all machines, or set checkpointing.dir to storage that all of them reach.";
    WORK_DIR "STORE-0013" "{dir} cannot be made"
        "The working directory of a local run is a file, or lies where this user may not write."
        "Give a directory that can be written with --dir.";

    CHAIN_VERSION "STATE-0001" "claim chain entry has format version {found}, this build reads {version}"
        "The job was written by a later version of Millstream."
        "Run the version of Millstream that wrote it, or a later one.";
    CHAIN_DAMAGED "STATE-0002" "{entry} of the claim chain is unreadable"
        "An object of the job's claim chain is not what was written."
        "Put the object back from a copy of the storage, or start a new job from a savepoint.";
    CHAIN_GONE "STATE-0003" "{what}"
        "Objects of the job or of its claim chain are missing: the directory is another one, or something deletes from it."
        "Check that the checkpoint directory is the right one and that nothing else deletes from it; put it back from a copy.";
    CHAIN_BROKEN "STATE-0004" "the claim chain breaks its rules"
        "Something else wrote to the job's claim chain."
        "Start a new job from a retained checkpoint.";
    JOB_ENDED "STATE-0005" "the job is {state} already"
        "The job ended, and an ended job never runs again."
        "Submit the job anew.";
    CLAIM_LOST "STATE-0006" "the claim on job {job} is lost"
        "Another jobmanager took the job over."
        "None, if that was meant; else check that only one cluster uses the storage directory.";
    FORMAT_VERSION "STATE-0007" "it has format version {found}, this build reads 1 to {newest}"
        "A stored job or the metadata of a checkpoint was written by a later version of Millstream."
        "Run the version of Millstream that wrote it, or a later one.";
    METADATA "STATE-0008" "checkpoint metadata {object} is refused"
        "The metadata of a checkpoint is damaged, or is of another job or checkpoint."
        "Restore from another checkpoint or savepoint by naming it; keep the object for the analysis of the storage.";
    STORED_JOB "STATE-0009" "{object} is refused"
        "A stored job, its graph, its result, or the mark of its cluster is damaged or not understood."
        "Put the object back from a copy of the storage, or submit the job anew from a checkpoint.";
    CHAIN_CALL "STATE-0010" "{what}"
        "A write to the claim chain was overtaken by a newer claim of the same jobmanager."
        "None: the job goes on under its newest claim.";

    JOB_FAILED "FAIL-0001" "Job execution failed."
        "The job ended FAILED; the causes follow, outermost first, each with its own code where it has one."
        "Do what the help of the innermost cause says.";
    JOB_CANCELLED "FAIL-0002" "the job was cancelled"
        "Somebody ended the job with millstream cancel, over REST, or with Ctrl-C."
        "None: it was asked for. Submit the job again to run it.";
    USER_CODE "FAIL-0003" "{what}"
        "An expression failed on a row, or a record cannot be read as the source declares it."
        "Correct the job or the file, or let the source skip bad records or dead-letter them.";
    SYNCHRONOUS_SNAPSHOT "FAIL-0004" "{what}"
        "A task could not take its part of a checkpoint."
        "Look at the causes: memory, or the disk of the state.";
    RESTORE "FAIL-0005" "{what}"
        "State could not be restored."
        "Look at the causes, and at their codes in this list.";
    CONNECTOR "FAIL-0006" "{what}"
        "A source or sink could not read or write: a missing file, a file that changed, no rights, no room."
        "Correct the path or the place that is named, as the taskmanager's machine sees it.";
    TASKMANAGER_LOST "FAIL-0007" "{what}"
        "A taskmanager did not send heartbeats any more, and its tasks are lost with it."
        "Look at its machine and at the end of its log; the job restarts elsewhere as its restart strategy says.";
    TASKMANAGER_LEAVING "FAIL-0008" "{what}"
        "A taskmanager was shut down on purpose."
        "None: its tasks move to other slots.";
    JOB_PROCESS "FAIL-0009" "{what}"
        "The process that runs the job's tasks on a taskmanager ended."
        "Look at the end of the taskmanager's log for the signal or the last words.";
    MEMORY_BUDGET "FAIL-0010" "{what}"
        "The job process used more memory than its slots have."
        "Raise taskmanager.memory.process.size, use the rocksdb backend, or spread the job over more slots.";
    LINK "FAIL-0011" "{what}"
        "A connection between two tasks broke, or carried bytes with a wrong checksum."
        "Look at the network between the two machines; the job restarts as its restart strategy says.";
    DEPLOYMENT "FAIL-0012" "{what}"
        "A task could not be started on its taskmanager."
        "Look at the causes: limits of processes, disk, or memory of that machine.";
    NO_SLOTS "FAIL-0013" "NoResourceAvailable: the job needs {needed} slots"
        "The job needs more slots than are free, and none came within slot.request.timeout."
        "Start more taskmanagers, or lower parallelism.";
    CHECKPOINT_TOLERANCE "FAIL-0014" "{what}"
        "More checkpoints in a row failed than checkpointing.tolerable-failed-checkpoints allows."
        "Look at the failed checkpoints on the page of the job, and at the storage.";
    DATA_LOSS "FAIL-0015" "DATA_LOSS: {what}"
        "Output that a completed checkpoint promised is gone and cannot be made visible any more."
        "Find out what deleted it; start a new job once that is stopped.";
    INTERNAL "FAIL-0016" "{what}"
        "The engine reached a state that it must not reach."
        "Report it as a bug, with the log around it.";
}
