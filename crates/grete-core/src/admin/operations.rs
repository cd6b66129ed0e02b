//! All operations under way in one client.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::AdminError;
use super::operation::{AdminReply, Operation};
use super::task::Run;
use crate::cluster::Cluster;
use crate::ids::NodeId;
use crate::request::{Channel, NotKafka, Outgoing, Owner, Reply, Request, Target, Token};
use crate::rng::{Backoff, Rng};
use crate::time::{MILLI, Nanos, SECOND, earlier};

/// Settings of all operations.
#[derive(Debug, Clone)]
pub struct OperationsConfig {
    /// `request.timeout.ms`.
    pub request_timeout: Nanos,
    /// First wait after a failure (`retry.backoff.ms`).
    pub retry_backoff: Nanos,
    /// Longest wait after failures (`retry.backoff.max.ms`).
    pub retry_backoff_max: Nanos,
}

impl Default for OperationsConfig {
    fn default() -> Self {
        Self { request_timeout: 30 * SECOND, retry_backoff: 100 * MILLI, retry_backoff_max: SECOND }
    }
}

/// Something happened.
#[derive(Debug)]
pub enum OperationsEvent {
    /// Somebody asks.
    Ask {
        /// The caller's number for it; comes back with the answer.
        id: u32,
        /// What.
        operation: Operation,
        /// From now on; the answer comes by then, whatever it is. [`Nanos::MAX`]: until it is forgotten.
        timeout: Nanos,
    },
    /// The caller does not wait any more.
    Forget(u32),
    /// An answer to one of our requests.
    Reply(Reply),
    /// A metadata answer was taken in.
    MetadataRefreshed,
    /// No address speaks Kafka.
    Fatal(NotKafka),
    /// The deadline has passed.
    Tick,
}

/// What is to be done.
#[derive(Debug)]
pub enum OperationsAction {
    /// Send it through the cluster.
    Send(Outgoing),
    /// A broker's address was named on the way.
    LearnNode {
        /// Its id.
        node: NodeId,
        /// Host.
        host: Arc<str>,
        /// Port.
        port: u16,
    },
    /// The metadata is stale.
    RefreshMetadata,
    /// Other topics' leaders are needed than before: see [`Operations::topics`].
    TopicsChanged,
    /// The answer to the question of that number.
    Reply(u32, AdminReply),
}

/// See the module.
#[derive(Debug)]
pub struct Operations {
    config: OperationsConfig,
    owner: Owner,
    rng: Rng,
    tasks: BTreeMap<u32, Box<dyn Run>>,
    /// Which task waits for which answer. Answers to tasks that are gone find no one.
    tokens: BTreeMap<u32, u32>,
    next_token: u32,
    /// Metadata answers so far.
    refreshes: u64,
    topics: Vec<Arc<str>>,
}

/// What a task may use while it is stepped.
pub(super) struct Context<'o> {
    pub now: Nanos,
    pub cluster: &'o Cluster,
    pub refreshes: u64,
    pub rng: &'o mut Rng,
    pub stale_metadata: bool,
    task: u32,
    config: &'o OperationsConfig,
    owner: Owner,
    tokens: &'o mut BTreeMap<u32, u32>,
    next_token: &'o mut u32,
    out: &'o mut Vec<OperationsAction>,
}

impl Context<'_> {
    pub fn send(&mut self, target: Target, request: Request) -> u32 {
        let id = *self.next_token;
        *self.next_token = id.wrapping_add(1);
        self.tokens.insert(id, self.task);
        let token = Token { owner: self.owner, id };
        // Never less than the setting, however little time the operation has left: a request that is out of time costs
        // the connection, and that is other operations', too.
        let timeout = self.config.request_timeout;
        self.out.push(OperationsAction::Send(Outgoing { target, channel: Channel::Control, request, token, timeout }));
        id
    }

    pub fn learn_node(&mut self, node: NodeId, host: &str, port: u16) {
        self.out.push(OperationsAction::LearnNode { node, host: host.into(), port });
    }

    /// How long a broker may be at it: it has to answer before the connection is given up.
    pub fn broker_timeout_ms(&self) -> i32 {
        i32::try_from(self.config.request_timeout / MILLI / 2).unwrap_or(i32::MAX)
    }
}

impl Operations {
    /// Requests carry tokens of `owner`.
    #[must_use]
    pub fn new(config: OperationsConfig, owner: Owner, rng: Rng) -> Self {
        Self {
            config,
            owner,
            rng,
            tasks: BTreeMap::new(),
            tokens: BTreeMap::new(),
            next_token: 0,
            refreshes: 0,
            topics: Vec::new(),
        }
    }

    /// When the next `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Nanos> {
        self.tasks.values().fold(None, |deadline, task| earlier(deadline, task.deadline()))
    }

    /// The topics whose leaders have to be known, in order.
    #[must_use]
    pub fn topics(&self) -> &[Arc<str>] {
        &self.topics
    }

    /// Takes one event, appends what has to be done.
    pub fn step(&mut self, now: Nanos, event: OperationsEvent, cluster: &Cluster, out: &mut Vec<OperationsAction>) {
        let mut touched = Vec::new();
        match event {
            OperationsEvent::Ask { id, operation, timeout } => {
                let backoff = Backoff::new(self.config.retry_backoff, self.config.retry_backoff_max);
                self.tasks.insert(id, operation.start(now.saturating_add(timeout), &backoff));
                self.advance(now, id, cluster, out);
                touched.push(id);
            }
            OperationsEvent::Forget(id) => {
                if self.tasks.remove(&id).is_some() {
                    self.tokens.retain(|_, task| *task != id);
                    self.update_topics(out);
                }
            }
            OperationsEvent::Reply(reply) => {
                if let Some(id) = self.tokens.remove(&reply.token.id) {
                    self.with(now, id, cluster, out, |task, cx| task.on_reply(&reply, cx));
                    touched.push(id);
                }
            }
            OperationsEvent::MetadataRefreshed => {
                self.refreshes += 1;
                touched.extend(self.tasks.keys());
                for &id in &touched {
                    self.advance(now, id, cluster, out);
                }
            }
            OperationsEvent::Fatal(not_kafka) => {
                touched.extend(self.tasks.keys());
                self.tasks.values_mut().for_each(|task| task.fail(&AdminError::NotKafka(not_kafka.clone())));
            }
            OperationsEvent::Tick => {
                let due = self.tasks.iter().filter(|(_, task)| task.deadline().is_some_and(|deadline| deadline <= now));
                touched.extend(due.map(|(id, _)| *id));
                for &id in &touched {
                    self.advance(now, id, cluster, out);
                }
            }
        }
        self.settle(&touched, out);
    }

    fn advance(&mut self, now: Nanos, id: u32, cluster: &Cluster, out: &mut Vec<OperationsAction>) {
        self.with(now, id, cluster, out, |task, cx| task.advance(cx));
    }

    fn with(
        &mut self,
        now: Nanos,
        id: u32,
        cluster: &Cluster,
        out: &mut Vec<OperationsAction>,
        step: impl FnOnce(&mut dyn Run, &mut Context<'_>),
    ) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        let mut cx = Context {
            now,
            cluster,
            refreshes: self.refreshes,
            rng: &mut self.rng,
            stale_metadata: false,
            task: id,
            config: &self.config,
            owner: self.owner,
            tokens: &mut self.tokens,
            next_token: &mut self.next_token,
            out,
        };
        step(&mut **task, &mut cx);
        if cx.stale_metadata {
            out.push(OperationsAction::RefreshMetadata);
        }
    }

    /// Answers what is settled.
    fn settle(&mut self, touched: &[u32], out: &mut Vec<OperationsAction>) {
        for id in touched {
            if self.tasks.get(id).is_some_and(|task| task.is_settled())
                && let Some(task) = self.tasks.remove(id)
            {
                self.tokens.retain(|_, task| task != id);
                out.push(OperationsAction::Reply(*id, task.finish()));
            }
        }
        if !touched.is_empty() {
            self.update_topics(out);
        }
    }

    fn update_topics(&mut self, out: &mut Vec<OperationsAction>) {
        let mut topics = Vec::new();
        self.tasks.values().for_each(|task| task.topics(&mut topics));
        topics.sort_unstable();
        topics.dedup();
        if topics != self.topics {
            self.topics = topics;
            out.push(OperationsAction::TopicsChanged);
        }
    }
}
