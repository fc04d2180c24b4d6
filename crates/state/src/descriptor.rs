//! Declared states, their schemas, and how those of a snapshot map onto them.

use std::collections::BTreeMap;
use std::fmt;

use crate::restore::RestorePolicy;
use crate::{StateError, Value};

/// A state within one operator's backend: its position in the declaration.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StateId(pub u16);

/// Position of a schema among those of one state: the first byte of every value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SchemaIndex(pub u8);

/// What a state holds for a key and namespace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum StateKind {
    /// One value.
    Value,
    /// Elements in order; the user key is the element's position.
    List,
    /// One value a user key.
    Map,
    /// One value, folded by a function from elements of the same type.
    Reducing,
    /// One accumulator, folded from elements of another type.
    Aggregating,
    /// Timers; the user key starts with the fire time.
    Timers,
}

impl StateKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Value,
        Self::List,
        Self::Map,
        Self::Reducing,
        Self::Aggregating,
        Self::Timers,
    ];

    /// The number this kind has in files. Numbers are never reused.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Value => 1,
            Self::List => 2,
            Self::Map => 3,
            Self::Reducing => 4,
            Self::Aggregating => 5,
            Self::Timers => 6,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Value => "value",
            Self::List => "list",
            Self::Map => "map",
            Self::Reducing => "reducing state",
            Self::Aggregating => "aggregating state",
            Self::Timers => "set of timers",
        })
    }
}

/// A state as the operator declares it, before the job runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateDescriptor {
    /// Unique within the operator; what the state is found by at a restore.
    pub name: String,
    /// What it holds.
    pub kind: StateKind,
    /// The version of the schema that values are written with: any text that changes whenever
    /// the encoding does.
    pub schema: String,
    /// Older versions that the operator can still decode.
    pub readable: Vec<String>,
}

impl StateDescriptor {
    /// A state with one schema and no older ones.
    pub fn new(name: &str, kind: StateKind, schema: &str) -> Self {
        Self {
            name: name.into(),
            kind,
            schema: schema.into(),
            readable: Vec::new(),
        }
    }
}

/// A schema as a snapshot keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSchema {
    /// What values of this schema start with.
    pub index: SchemaIndex,
    /// The schema's version.
    pub version: String,
}

/// A state as a snapshot keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredState {
    /// The id in the snapshot's keys.
    pub id: StateId,
    /// The state's name.
    pub name: String,
    /// What it holds.
    pub kind: StateKind,
    /// Every schema that a value may have.
    pub schemas: Vec<StoredSchema>,
}

/// The states of one operator and the schemas of their values.
#[derive(Clone, Debug)]
pub struct StateTable {
    states: Vec<Declared>,
}

#[derive(Clone, Debug)]
struct Declared {
    descriptor: StateDescriptor,
    /// By index. Those of a restored snapshot come first and keep their index.
    schemas: Vec<String>,
    current: SchemaIndex,
}

impl Declared {
    fn intern(&mut self, version: &str) -> Result<SchemaIndex, StateError> {
        if let Some(index) = self.schemas.iter().position(|known| known == version) {
            return Ok(SchemaIndex(index as u8));
        }
        if self.schemas.len() == 256 {
            return Err(StateError::Declaration {
                state: self.descriptor.name.clone(),
                why: "a state can hold values of 256 schemas at most",
            });
        }
        self.schemas.push(version.into());
        Ok(SchemaIndex((self.schemas.len() - 1) as u8))
    }
}

impl StateTable {
    const LONGEST_TEXT: usize = 4096;

    /// Checks the declarations. State ids follow their order.
    pub fn declare(descriptors: Vec<StateDescriptor>) -> Result<Self, StateError> {
        let mut names = BTreeMap::new();
        let mut states = Vec::with_capacity(descriptors.len());
        for descriptor in descriptors {
            let too_long = |text: &String| text.is_empty() || text.len() > Self::LONGEST_TEXT;
            let why = if names.insert(descriptor.name.clone(), ()).is_some() {
                Some("the name is declared twice")
            } else if states.len() > usize::from(u16::MAX) {
                Some("an operator can have 65536 states at most")
            } else if too_long(&descriptor.name) || too_long(&descriptor.schema) {
                Some("name and schema version take 1 to 4096 bytes each")
            } else {
                None
            };
            if let Some(why) = why {
                return Err(StateError::Declaration {
                    state: descriptor.name,
                    why,
                });
            }
            states.push(Declared {
                schemas: vec![descriptor.schema.clone()],
                descriptor,
                current: SchemaIndex(0),
            });
        }
        Ok(Self { states })
    }

    /// The id of a declared state.
    pub fn id(&self, name: &str) -> Option<StateId> {
        let position = self
            .states
            .iter()
            .position(|state| state.descriptor.name == name)?;
        Some(StateId(position as u16))
    }

    /// The number of states; their ids are `0..len`.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether no state is declared.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The declaration of a state.
    ///
    /// # Panics
    /// If the id is not of this table.
    pub fn descriptor(&self, id: StateId) -> &StateDescriptor {
        &self.states[usize::from(id.0)].descriptor
    }

    /// The schema that new values of the state are written with. It may differ after a restore.
    ///
    /// # Panics
    /// If the id is not of this table.
    pub fn current_schema(&self, id: StateId) -> SchemaIndex {
        self.states[usize::from(id.0)].current
    }

    /// The version of the schema that a value of the state was written with.
    pub fn schema_version(&self, id: StateId, value: Value<'_>) -> Option<&str> {
        let state = self.states.get(usize::from(id.0))?;
        state
            .schemas
            .get(usize::from(value.schema.0))
            .map(String::as_str)
    }

    /// The table as a snapshot keeps it.
    pub fn stored(&self) -> Vec<StoredState> {
        let schemas = |state: &Declared| {
            let indexed = state.schemas.iter().enumerate();
            indexed
                .map(|(index, version)| StoredSchema {
                    index: SchemaIndex(index as u8),
                    version: version.clone(),
                })
                .collect()
        };
        self.states
            .iter()
            .enumerate()
            .map(|(id, state)| StoredState {
                id: StateId(id as u16),
                name: state.descriptor.name.clone(),
                kind: state.descriptor.kind,
                schemas: schemas(state),
            })
            .collect()
    }

    /// Takes over the schemas of the parts of a snapshot, all before any value is loaded. The
    /// indexes of the first part are kept as they are, so its values need no rewriting. Returns
    /// one [`Remap`] a part.
    pub(crate) fn adopt(
        &mut self,
        parts: &[&[StoredState]],
        policy: RestorePolicy,
    ) -> Result<Vec<Remap>, StateError> {
        for state in &mut self.states {
            state.schemas.clear();
        }
        let mut remaps = Vec::with_capacity(parts.len());
        for part in parts {
            let mut remap = Remap::default();
            for stored in *part {
                self.adopt_state(stored, policy, &mut remap)?;
            }
            remaps.push(remap);
        }
        for state in &mut self.states {
            let version = state.descriptor.schema.clone();
            state.current = state.intern(&version)?;
        }
        Ok(remaps)
    }

    fn adopt_state(
        &mut self,
        stored: &StoredState,
        policy: RestorePolicy,
        remap: &mut Remap,
    ) -> Result<(), StateError> {
        let Some(id) = self.id(&stored.name) else {
            if policy == RestorePolicy::RequireAll {
                return Err(StateError::Undeclared {
                    state: stored.name.clone(),
                });
            }
            remap.dropped.push(stored.name.clone());
            return Ok(());
        };
        let state = &mut self.states[usize::from(id.0)];
        if state.descriptor.kind != stored.kind {
            return Err(StateError::KindChanged {
                state: stored.name.clone(),
                found: stored.kind,
                declared: state.descriptor.kind,
            });
        }
        let mut schemas = BTreeMap::new();
        for schema in &stored.schemas {
            let descriptor = &state.descriptor;
            if schema.version != descriptor.schema && !descriptor.readable.contains(&schema.version)
            {
                return Err(StateError::UnknownSchema {
                    state: stored.name.clone(),
                    found: schema.version.clone(),
                    declared: descriptor.schema.clone(),
                    readable: descriptor.readable.clone(),
                });
            }
            schemas.insert(schema.index, state.intern(&schema.version)?);
        }
        remap.states.insert(stored.id, (id, schemas));
        Ok(())
    }
}

/// How the ids and schema indexes of one part of a snapshot map onto those of a table.
#[derive(Default, Debug)]
pub(crate) struct Remap {
    states: BTreeMap<StateId, (StateId, BTreeMap<SchemaIndex, SchemaIndex>)>,
    /// States of the part that are not declared.
    pub(crate) dropped: Vec<String>,
}

impl Remap {
    /// The id here of a state there; none if it is dropped.
    pub(crate) fn state(&self, stored: StateId) -> Option<StateId> {
        Some(self.states.get(&stored)?.0)
    }

    /// The schema index here of one there.
    pub(crate) fn schema(&self, stored: StateId, schema: SchemaIndex) -> Option<SchemaIndex> {
        self.states.get(&stored)?.1.get(&schema).copied()
    }
}
