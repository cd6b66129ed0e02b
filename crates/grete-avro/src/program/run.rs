//! Execution of a program.

use super::{MAX_DEPTH, MAX_EMPTY_ITEMS, Op, OpId, Program, Sink, Step, skip};
use crate::error::DecodeError;
use crate::wire::Input;

/// One execution.
pub(super) struct Run<'p, 'd, 's, S> {
    program: &'p Program,
    pub(super) input: Input<'d>,
    sink: &'s mut S,
    depth: usize,
    empty_items: usize,
}

impl<'p, 'd, 's, S: Sink> Run<'p, 'd, 's, S> {
    pub(super) fn new(program: &'p Program, input: Input<'d>, sink: &'s mut S) -> Self {
        Self { program, input, sink, depth: 0, empty_items: 0 }
    }

    #[inline]
    pub(super) fn value(&mut self, op: OpId) -> Result<S::Value, S::Error> {
        let program = self.program; // ids come from the compiler of this very program
        match &program.ops[op.0 as usize] {
            Op::Null => self.sink.null(),
            Op::Boolean => {
                let value = self.input.boolean()?;
                self.sink.boolean(value)
            }
            Op::Int(logical) => {
                let value = self.input.int()?;
                self.sink.int(value, *logical)
            }
            Op::Long(logical) => {
                let value = self.input.long()?;
                self.sink.long(value, *logical)
            }
            Op::Float => {
                let value = self.input.float()?;
                self.sink.float(value)
            }
            Op::Double => {
                let value = self.input.double()?;
                self.sink.double(value)
            }
            Op::Bytes(logical) | Op::StringAsBytes(logical) => {
                let value = self.input.bytes()?;
                self.sink.bytes(value, *logical)
            }
            Op::String(logical) | Op::BytesAsString(logical) => {
                let value = self.input.string()?;
                self.sink.string(value, *logical)
            }
            Op::Union(branches) => {
                let branch = self.input.long()?;
                match usize::try_from(branch).ok().and_then(|branch| branches.get(branch)) {
                    Some(op) => self.value(*op),
                    None => {
                        let count = branches.len();
                        Err(self.input.error(format_args!("branch {branch} of a union of {count}")).into())
                    }
                }
            }
            Op::Record { .. } | Op::Array { .. } | Op::Map { .. } => self.nested(op),
            other => self.rare(other),
        }
    }

    fn rare(&mut self, op: &'p Op) -> Result<S::Value, S::Error> {
        match op {
            Op::Fixed { node, size, logical } => {
                let value = self.input.take(*size)?;
                self.sink.fixed(*node, value, *logical)
            }
            Op::IntAsLong(logical) => {
                let value = self.input.int()?;
                self.sink.long(i64::from(value), *logical)
            }
            Op::LongAsFloat => {
                let value = self.input.long()?;
                self.sink.float(value as f32)
            }
            Op::LongAsDouble => {
                let value = self.input.long()?;
                self.sink.double(value as f64)
            }
            Op::FloatAsDouble => {
                let value = self.input.float()?;
                self.sink.double(f64::from(value))
            }
            Op::Enum { node, symbols } => {
                let number = self.input.int()?;
                match usize::try_from(number).ok().and_then(|number| symbols.get(number)) {
                    Some(Some(symbol)) => self.sink.symbol(*node, *symbol),
                    Some(None) => Err(self
                        .input
                        .error(format_args!(
                            "the reader's enum has neither the writer's symbol number {number} nor a default"
                        ))
                        .into()),
                    None => {
                        Err(self.input.error(format_args!("symbol {number} of an enum of {}", symbols.len())).into())
                    }
                }
            }
            Op::Mismatch(reason) => Err(self.input.error(reason).into()),
            _ => Err(self.input.error("the program is not complete").into()),
        }
    }

    fn nested(&mut self, op: OpId) -> Result<S::Value, S::Error> {
        if self.depth == MAX_DEPTH {
            return Err(self.input.error(format_args!("values are nested deeper than {MAX_DEPTH} levels")).into());
        }
        self.depth += 1;
        let program = self.program;
        let value = match &program.ops[op.0 as usize] {
            Op::Record { node, steps } => {
                let mut record = self.sink.begin_record(*node)?;
                for step in steps {
                    match step {
                        Step::Read { field, op } => {
                            self.sink.begin_field(&mut record, *field);
                            let value = self.value(*op).map_err(|error| self.sink.in_field(error, *node, *field))?;
                            self.sink.field(&mut record, *field, value)?;
                        }
                        Step::Skip(writer) => skip::skip(&program.writer, *writer, &mut self.input)?,
                        Step::Default { field, op, data } => {
                            self.sink.begin_field(&mut record, *field);
                            let value = self.default(*op, data)?;
                            self.sink.field(&mut record, *field, value)?;
                        }
                    }
                }
                self.sink.end_record(record)
            }
            Op::Array { node, item, .. } => {
                let mut list = self.sink.begin_list(*node)?;
                loop {
                    let (count, size) = self.input.block()?;
                    if count == 0 {
                        break;
                    }
                    let end = size.map(|size| self.input.remaining() - size);
                    for _ in 0..count {
                        let before = self.input.remaining();
                        self.sink.begin_item(&mut list);
                        let value = self.value(*item)?;
                        self.sink.item(&mut list, value)?;
                        self.count_empty(before)?;
                    }
                    self.input.check_block_end(end)?;
                }
                self.sink.end_list(list)
            }
            Op::Map { node, item } => {
                let mut map = self.sink.begin_map(*node)?;
                loop {
                    let (count, size) = self.input.block()?;
                    if count == 0 {
                        break;
                    }
                    let end = size.map(|size| self.input.remaining() - size);
                    for _ in 0..count {
                        let key = self.input.string()?;
                        self.sink.begin_entry(&mut map, key)?;
                        let value = self.value(*item)?;
                        self.sink.entry(&mut map, key, value)?;
                    }
                    self.input.check_block_end(end)?;
                }
                self.sink.end_map(map)
            }
            _ => Err(self.input.error("the program is not complete").into()),
        };
        self.depth -= 1;
        value
    }

    /// Reads the default's own bytes in place of the data.
    fn default(&mut self, op: OpId, data: &'p [u8]) -> Result<S::Value, S::Error> {
        let mut inner = Run {
            program: self.program,
            input: Input::new(data),
            sink: &mut *self.sink,
            depth: self.depth,
            empty_items: 0,
        };
        inner.value(op)
    }

    /// Counts items that take no bytes: data that claims any number of them costs nothing to send.
    #[inline]
    fn count_empty(&mut self, before: usize) -> Result<(), DecodeError> {
        if self.input.remaining() == before {
            self.empty_items += 1;
            if self.empty_items > MAX_EMPTY_ITEMS {
                return Err(self.input.error(format_args!("more than {MAX_EMPTY_ITEMS} items without bytes")));
            }
        }
        Ok(())
    }
}
