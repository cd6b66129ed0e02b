//! Resolution of two schemas: the rules of "Schema Resolution" in Avro's specification.

use std::collections::HashMap;

use super::{Op, OpId, Step};
use crate::error::ResolveError;
use crate::schema::{Kind, NodeId, Record, Schema};

/// Nesting of a schema's types. Names nest types deeper than JSON does.
const MAX_DEPTH: usize = 500;

/// Compiler with the pairs so far: a pair in a recursive type is compiled once.
struct Compiler<'a> {
    writer: &'a Schema,
    reader: &'a Schema,
    ops: Vec<Op>,
    done: HashMap<(NodeId, NodeId), OpId>,
    failed: HashMap<(NodeId, NodeId), String>,
    depth: usize,
}

pub(super) fn compile(writer: &Schema, reader: &Schema) -> Result<(Vec<Op>, OpId), ResolveError> {
    let mut compiler =
        Compiler { writer, reader, ops: Vec::new(), done: HashMap::new(), failed: HashMap::new(), depth: 0 };
    let root = compiler.pair(writer.root(), reader.root()).map_err(ResolveError)?;
    Ok((compiler.ops, root))
}

impl Compiler<'_> {
    fn push(&mut self, op: Op) -> OpId {
        let id = OpId(self.ops.len() as u32);
        self.ops.push(op);
        id
    }

    fn pair(&mut self, writer: NodeId, reader: NodeId) -> Result<OpId, String> {
        if let Some(id) = self.done.get(&(writer, reader)) {
            return Ok(*id);
        }
        if let Some(reason) = self.failed.get(&(writer, reader)) {
            return Err(reason.clone());
        }
        if self.depth == MAX_DEPTH {
            return Err(format!("types are nested deeper than {MAX_DEPTH} levels"));
        }
        let id = self.push(Op::Pending);
        self.done.insert((writer, reader), id);
        self.depth += 1;
        let op = self.op(writer, reader);
        self.depth -= 1;
        match op {
            Ok(op) => {
                self.ops[id.0 as usize] = op;
                Ok(id)
            }
            Err(reason) => {
                // What was compiled since may refer to the failed pair.
                self.ops.truncate(id.0 as usize);
                self.done.retain(|_, known| known.0 < id.0);
                self.failed.insert((writer, reader), reason.clone());
                Err(reason)
            }
        }
    }

    fn op(&mut self, writer: NodeId, reader: NodeId) -> Result<Op, String> {
        let (from, to) = (self.writer, self.reader);
        let (written, read) = (from.node(writer), to.node(reader));
        if let Kind::Union(branches) = &written.kind {
            let ops = branches.iter().map(|&branch| match self.pair(branch, reader) {
                Ok(id) => id,
                // The data may never have this branch.
                Err(reason) => self.push(Op::Mismatch(reason.into())),
            });
            let ops: Box<[OpId]> = ops.collect();
            if ops.iter().all(|id| matches!(self.ops[id.0 as usize], Op::Mismatch(_))) {
                return Err(self.misfit(writer, reader));
            }
            return Ok(Op::Union(ops));
        }
        if let Kind::Union(branches) = &read.kind {
            let branch = branches.iter().copied().find(|&branch| self.same_type(writer, branch));
            let branch = branch.or_else(|| branches.iter().copied().find(|&branch| self.promotable(writer, branch)));
            let branch = branch.ok_or_else(|| self.misfit(writer, reader))?;
            return self.op(writer, branch);
        }
        let logical = read.logical;
        Ok(match (&written.kind, &read.kind) {
            (Kind::Null, Kind::Null) => Op::Null,
            (Kind::Boolean, Kind::Boolean) => Op::Boolean,
            (Kind::Int, Kind::Int) => Op::Int(logical),
            (Kind::Long, Kind::Long) => Op::Long(logical),
            (Kind::Float, Kind::Float) => Op::Float,
            (Kind::Double, Kind::Double) => Op::Double,
            (Kind::Bytes, Kind::Bytes) => Op::Bytes(logical),
            (Kind::String, Kind::String) => Op::String(logical),
            (Kind::Int, Kind::Long) => Op::IntAsLong(logical),
            (Kind::Int | Kind::Long, Kind::Float) => Op::LongAsFloat,
            (Kind::Int | Kind::Long, Kind::Double) => Op::LongAsDouble,
            (Kind::Float, Kind::Double) => Op::FloatAsDouble,
            (Kind::Bytes, Kind::String) => Op::BytesAsString(logical),
            (Kind::String, Kind::Bytes) => Op::StringAsBytes(logical),
            (Kind::Fixed(written), Kind::Fixed(read)) => {
                if written.size != read.size || !read.name.accepts(&written.name) {
                    return Err(format!("{} of {} bytes", self.misfit(writer, reader), written.size));
                }
                Op::Fixed { node: reader, size: read.size, logical }
            }
            (Kind::Enum(written), Kind::Enum(read)) => {
                if !read.name.accepts(&written.name) {
                    return Err(self.misfit(writer, reader));
                }
                let known = |symbol: &String| read.symbols.iter().position(|one| one == symbol).map(|at| at as u32);
                let symbols = written.symbols.iter().map(|symbol| known(symbol).or(read.default)).collect();
                Op::Enum { node: reader, symbols }
            }
            (Kind::Array(written), Kind::Array(read)) => Op::Array { node: reader, item: self.pair(*written, *read)? },
            (Kind::Map(written), Kind::Map(read)) => Op::Map { node: reader, item: self.pair(*written, *read)? },
            (Kind::Record(written), Kind::Record(read)) => {
                if !read.name.accepts(&written.name) {
                    return Err(format!(
                        "{}; give the reader's record the alias {:?}",
                        self.misfit(writer, reader),
                        written.name.full
                    ));
                }
                Op::Record { node: reader, steps: self.steps(written, read)? }
            }
            _ => return Err(self.misfit(writer, reader)),
        })
    }

    fn steps(&mut self, written: &Record, read: &Record) -> Result<Box<[Step]>, String> {
        let mut steps = Vec::with_capacity(written.fields.len());
        let mut filled = vec![false; read.fields.len()];
        for field in &written.fields {
            let found = read.fields.iter().position(|one| one.name == field.name).or_else(|| {
                read.fields.iter().position(|one| {
                    one.aliases.contains(&field.name) && !written.fields.iter().any(|other| other.name == one.name)
                })
            });
            let target = found.and_then(|at| read.fields.get(at).zip(filled.get_mut(at)).map(|pair| (at, pair)));
            match target {
                Some((at, (wanted, slot))) if !*slot => {
                    *slot = true;
                    let op = self
                        .pair(field.node, wanted.node)
                        .map_err(|reason| format!("field {}.{}: {reason}", read.name.full, wanted.name))?;
                    steps.push(Step::Read { field: at, op });
                }
                _ => steps.push(Step::Skip(field.node)),
            }
        }
        for (at, field) in read.fields.iter().enumerate() {
            if filled.get(at) == Some(&true) {
                continue;
            }
            let data = field.default.clone().ok_or_else(|| {
                format!(
                    "field {}.{}: the writer's schema does not have it; give it a default in the reader's schema",
                    read.name.full, field.name
                )
            })?;
            // Defaults are encoded with the reader's own type.
            let mut own = Compiler {
                writer: self.reader,
                reader: self.reader,
                ops: std::mem::take(&mut self.ops),
                done: HashMap::new(),
                failed: HashMap::new(),
                depth: self.depth,
            };
            let op = own.pair(field.node, field.node);
            self.ops = own.ops;
            steps.push(Step::Default { field: at, op: op?, data });
        }
        Ok(steps.into())
    }

    /// Returns whether both are the same type: with the same name, if the type has one.
    fn same_type(&self, writer: NodeId, reader: NodeId) -> bool {
        match (&self.writer.node(writer).kind, &self.reader.node(reader).kind) {
            (Kind::Record(written), Kind::Record(read)) => read.name.accepts(&written.name),
            (Kind::Enum(written), Kind::Enum(read)) => read.name.accepts(&written.name),
            (Kind::Fixed(written), Kind::Fixed(read)) => written.size == read.size && read.name.accepts(&written.name),
            (written, read) => std::mem::discriminant(written) == std::mem::discriminant(read),
        }
    }

    fn promotable(&self, writer: NodeId, reader: NodeId) -> bool {
        matches!(
            (&self.writer.node(writer).kind, &self.reader.node(reader).kind),
            (Kind::Int, Kind::Long | Kind::Float | Kind::Double)
                | (Kind::Long, Kind::Float | Kind::Double)
                | (Kind::Float, Kind::Double)
                | (Kind::Bytes, Kind::String)
                | (Kind::String, Kind::Bytes)
        )
    }

    fn misfit(&self, writer: NodeId, reader: NodeId) -> String {
        format!("{} cannot be read as {}", self.writer.describe(writer), self.reader.describe(reader))
    }
}
