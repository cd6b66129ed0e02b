//! Both brokers, one request at a time: a step goes to Grete's broker first, which shows whether the request waits.

use std::time::{Duration, Instant};

use grete_wire::ApiKey;
use grete_wire::messages::ApiVersionsRequest;

use crate::connection::{Answer, Connection};
use crate::message::{Ask, ask};
use crate::normalize::{drop_extra_texts, normalize};
use crate::side::Side;
use crate::steps::{self, Offered, Step};
use crate::tree::Tree;

/// Connections of a run.
pub const CONNECTIONS: usize = 4;
/// Time for a response that must come.
const DEADLINE: Duration = Duration::from_secs(8);
/// Time for Kafka to show the effect of a request that it performs later.
const EFFECT_DEADLINE: Duration = Duration::from_secs(2);

struct Client {
    side: Side,
    connections: Vec<Connection>,
    /// For probes and barriers.
    helper: Connection,
}

impl Client {
    fn new(address: &str, run: &str, start: i64) -> Self {
        Self {
            side: Side::new(run, start, CONNECTIONS),
            connections: (0..CONNECTIONS).map(|_| Connection::new(address)).collect(),
            helper: Connection::new(address),
        }
    }

    fn call(&mut self, ask: &Ask) -> Answer {
        self.helper.send(ask);
        self.helper.receive(ask, DEADLINE)
    }

    fn normal(&mut self, ask: &Ask, answer: &Answer) -> Tree {
        match answer {
            Answer::Response(response) => normalize(ask.api, response, &mut self.side),
            Answer::Closed => Tree::Atom("connection closed".into()),
            Answer::None => Tree::Atom("no response".into()),
        }
    }
}

/// Request that waits on a connection.
struct Waiting {
    grete: Ask,
    kafka: Ask,
    report: String,
}

/// Both brokers during a run.
pub struct Pair<'a> {
    grete: Client,
    kafka: Client,
    offered: &'a Offered,
    waiting: Vec<Option<Waiting>>,
    /// Gets the differences, so that the run goes on; `None`: a difference ends the run.
    tolerated: Option<&'a mut Vec<String>>,
}

impl<'a> Pair<'a> {
    /// Starts a run.
    pub fn new(grete: &str, kafka: &str, run: &str, start: i64, offered: &'a Offered) -> Self {
        Self {
            tolerated: None,
            grete: Client::new(grete, run, start),
            kafka: Client::new(kafka, run, start),
            offered,
            waiting: (0..CONNECTIONS).map(|_| None).collect(),
        }
    }

    /// Goes on after differences, which `into` gets.
    pub fn tolerate(&mut self, into: &'a mut Vec<String>) {
        self.tolerated = Some(into);
    }

    fn differ(&mut self, difference: String) -> Result<(), String> {
        match &mut self.tolerated {
            Some(tolerated) => {
                tolerated.push(difference);
                Ok(())
            }
            None => Err(difference),
        }
    }

    /// Performs a step on both brokers. The error describes a difference. `transcript`: gets requests and responses.
    pub fn step(&mut self, step: Step, is_first: bool, transcript: &mut Vec<String>) -> Result<(), String> {
        let free = |offset: &usize| self.waiting[(step.conn + offset) % CONNECTIONS].is_none();
        let Some(offset) = (0..CONNECTIONS).find(free) else { return Ok(()) };
        let conn = (step.conn + offset) % CONNECTIONS;
        let requests = (
            steps::build(step, conn, &self.grete.side, self.offered, is_first),
            steps::build(step, conn, &self.kafka.side, self.offered, is_first),
        );
        let (Some(grete), Some(kafka)) = requests else { return Ok(()) };
        // A second request of a member that waits would replace the first, which then never gets a response.
        let is_busy = |waiting: &Option<Waiting>| {
            waiting.as_ref().is_some_and(|waiting| matches!(waiting.grete.api, ApiKey::JoinGroup | ApiKey::SyncGroup))
        };
        let is_membership = matches!(grete.api, ApiKey::JoinGroup | ApiKey::SyncGroup);
        if is_membership
            && self.waiting.iter().filter(|waiting| is_busy(waiting)).any(|waiting| {
                let text = &waiting.as_ref().expect("waits").grete;
                member_of(&text.text) == member_of(&grete.text)
            })
        {
            return Ok(());
        }
        let report = format!("conn {conn} {} v{} {}", grete.api, grete.version, short(&grete.text));
        transcript.push(report.clone());
        self.grete.connections[conn].send(&grete);
        self.kafka.connections[conn].send(&kafka);
        let api = grete.api;
        self.waiting[conn] = Some(Waiting { grete, kafka, report });
        self.collect(Some(conn), transcript)?;
        let mut probes = probes(api);
        if self.waiting[conn].is_some() && api != ApiKey::Fetch {
            probes = &[steps::describe_groups];
        }
        probes.iter().try_for_each(|probe| self.settle(*probe))?;
        // What the step has set in motion may complete other requests.
        self.collect(None, transcript)
    }

    /// Takes the responses that Grete's broker has sent, and those of Kafka to the same requests.
    fn collect(&mut self, new: Option<usize>, transcript: &mut Vec<String>) -> Result<(), String> {
        self.barrier();
        let order = new.into_iter().chain((0..CONNECTIONS).filter(|conn| Some(*conn) != new));
        for conn in order {
            let Some(waiting) = self.waiting[conn].take() else { continue };
            let grete_answer = self.grete.connections[conn].receive(&waiting.grete, Duration::ZERO);
            if grete_answer == Answer::None {
                if new.is_none() {
                    let answer = self.kafka.connections[conn].receive(&waiting.kafka, Duration::ZERO);
                    if let Answer::Response(response) = &answer {
                        self.differ(format!("{}\n  grete waits, kafka answers {response}", waiting.report))?;
                        continue;
                    }
                }
                self.waiting[conn] = Some(waiting);
                continue;
            }
            let mut kafka_answer = self.kafka.connections[conn].receive(&waiting.kafka, DEADLINE);
            // Kafka ends the open transaction in the background and lets the client ask again.
            if is_concurrent(&kafka_answer) && !is_concurrent(&grete_answer) {
                let end = Instant::now() + EFFECT_DEADLINE;
                while is_concurrent(&kafka_answer) && Instant::now() < end {
                    self.kafka.connections[conn].send(&waiting.kafka);
                    kafka_answer = self.kafka.connections[conn].receive(&waiting.kafka, DEADLINE);
                }
            }
            let mut grete = self.grete.normal(&waiting.grete, &grete_answer);
            let kafka = self.kafka.normal(&waiting.kafka, &kafka_answer);
            drop_extra_texts(waiting.grete.api, &mut grete, &kafka);
            transcript.push(format!("  conn {conn} grete {}", short(&grete.to_string())));
            if grete != kafka {
                transcript.push(format!("  conn {conn} kafka {}", short(&kafka.to_string())));
                let mut lines = vec![waiting.report.clone()];
                grete.differences(&kafka, "", &mut lines);
                self.differ(lines.join("\n    "))?;
            }
            for (client, ask, answer) in
                [(&mut self.grete, &waiting.grete, &grete_answer), (&mut self.kafka, &waiting.kafka, &kafka_answer)]
            {
                match answer {
                    Answer::Response(response) => client.side.learn(&ask.learn, response),
                    _ => client.connections[conn].close(),
                }
            }
        }
        Ok(())
    }

    /// Waits until Grete's broker has handled what was sent: its one thread serves the connections in turn.
    fn barrier(&mut self) {
        let request = ask(0, &ApiVersionsRequest::default()).expect("encodes");
        for _ in 0..2 {
            assert!(matches!(self.grete.call(&request), Answer::Response(_)));
        }
    }

    /// Waits until Kafka shows what Grete's broker shows at once.
    fn settle(&mut self, probe: fn(&Side) -> Ask) -> Result<(), String> {
        let (grete_ask, kafka_ask) = (probe(&self.grete.side), probe(&self.kafka.side));
        let grete_answer = self.grete.call(&grete_ask);
        let grete = self.grete.normal(&grete_ask, &grete_answer);
        let end = Instant::now() + EFFECT_DEADLINE;
        loop {
            let kafka_answer = self.kafka.call(&kafka_ask);
            let seen = self.kafka.side.seen.clone();
            let kafka = self.kafka.normal(&kafka_ask, &kafka_answer);
            if grete == kafka {
                for (side, answer) in [(&mut self.grete.side, &grete_answer), (&mut self.kafka.side, &kafka_answer)] {
                    if let Answer::Response(response) = answer {
                        side.learn(&crate::side::Learn::Nothing, response);
                    }
                }
                return Ok(());
            }
            self.kafka.side.seen = seen;
            if Instant::now() >= end {
                let mut lines = vec![format!("probe {} v{} {}", grete_ask.api, grete_ask.version, grete_ask.text)];
                grete.differences(&kafka, "", &mut lines);
                return self.differ(lines.join("\n    "));
            }
            // Kafka's threads need the cores that this loop would use.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

type Probe = fn(&Side) -> Ask;

/// Requests that show the effects of an API which Kafka performs after its response.
fn probes(api: ApiKey) -> &'static [Probe] {
    match api {
        ApiKey::CreateTopics | ApiKey::DeleteTopics | ApiKey::CreatePartitions => {
            &[steps::metadata_of, steps::describe_configs, steps::latest_offsets, steps::fetch_all_offsets]
        }
        ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs => &[steps::describe_configs],
        ApiKey::CreateAcls | ApiKey::DeleteAcls => &[steps::describe_acls],
        ApiKey::EndTxn | ApiKey::InitProducerId => {
            &[steps::describe_transactions, steps::latest_offsets, steps::fetch_all_offsets]
        }
        _ => &[],
    }
}

fn is_concurrent(answer: &Answer) -> bool {
    matches!(answer, Answer::Response(response) if response.number("error_code") == Some(51))
}

/// Group and member of a request's text.
fn member_of(text: &str) -> Option<(&str, &str)> {
    let field = |name: &str| text.split_once(name)?.1.split('"').nth(1);
    Some((field("group_id: ")?, field("member_id: ")?))
}

/// Shortens a text for a report.
pub fn short(text: &str) -> String {
    const LIMIT: usize = 1500;
    if text.len() <= LIMIT { text.to_owned() } else { format!("{}...", text.chars().take(LIMIT).collect::<String>()) }
}
