//! Object headers, versions 1 and 2 (HDF5 File Format Specification, section IV.A), as a list of
//! messages that are parsed by whoever needs them. One message that cannot be understood does not
//! spoil the object.

use std::collections::{HashSet, VecDeque};

use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::shared::{self, SharedMessage};

use super::store::Store;
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;

/// Most bytes of one object header: attributes of at most 64 KiB, a few thousand of them.
const HEADER_BYTES_MAX: u64 = 64 << 20;

/// Message types.
pub(super) mod kind {
    pub(in super::super) const DATASPACE: u16 = 0x01;
    pub(in super::super) const LINK_INFO: u16 = 0x02;
    pub(in super::super) const DATATYPE: u16 = 0x03;
    pub(in super::super) const FILL_OLD: u16 = 0x04;
    pub(in super::super) const FILL: u16 = 0x05;
    pub(in super::super) const LINK: u16 = 0x06;
    pub(in super::super) const EXTERNAL_FILES: u16 = 0x07;
    pub(in super::super) const LAYOUT: u16 = 0x08;
    pub(in super::super) const FILTERS: u16 = 0x0b;
    pub(in super::super) const ATTRIBUTE: u16 = 0x0c;
    pub(in super::super) const CONTINUATION: u16 = 0x10;
    pub(in super::super) const SYMBOL_TABLE: u16 = 0x11;
    pub(in super::super) const ATTRIBUTE_INFO: u16 = 0x15;
}

/// Message flag: the message is elsewhere, this is a reference to it.
const SHARED: u8 = 0x02;

/// One message.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: u16,
    flags: u8,
    /// When it was created, counted per object, if that is tracked.
    pub(super) order: Option<u16>,
    /// Address of the first byte of `data`.
    pub(super) address: u64,
    pub(super) data: Vec<u8>,
}

/// The messages of an object.
#[derive(Debug)]
pub(super) struct ObjectHeader {
    pub(super) address: u64,
    pub(super) messages: Vec<Message>,
}

impl ObjectHeader {
    pub(super) fn read(store: &Store, address: u64) -> Result<Self, NetcdfError> {
        let mut reader = Reader {
            store,
            address,
            messages: Vec::new(),
            continuations: VecDeque::new(),
            seen: HashSet::new(),
            budget: HEADER_BYTES_MAX,
        };
        if reader.block(address, 4)? == b"OHDR" {
            reader.version_2()?;
        } else {
            reader.version_1()?;
        }
        Ok(Self { address, messages: reader.messages })
    }

    pub(super) fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }

    pub(super) fn first(&self, kind: u16) -> Option<&Message> {
        self.all(kind).next()
    }

    /// The first message of a kind with shared ones looked up, and whether it was shared.
    pub(super) fn resolved(
        &self,
        store: &Store,
        kind: u16,
    ) -> Result<Option<(Message, bool)>, NetcdfError> {
        self.first(kind).map(|message| message.resolve(store)).transpose()
    }
}

impl Message {
    /// The message itself if this is a reference to it, and whether it was one.
    pub(super) fn resolve(&self, store: &Store) -> Result<(Self, bool), NetcdfError> {
        if self.flags & SHARED == 0 {
            return Ok((self.clone(), false));
        }
        Ok((resolve_shared(store, self.kind, self.address, &self.data)?, true))
    }
}

/// Follows a reference to a message that is shared between objects.
pub(super) fn resolve_shared(
    store: &Store,
    kind: u16,
    address: u64,
    reference: &[u8],
) -> Result<Message, NetcdfError> {
    let what = "a reference to a shared message";
    let parsed = store.guard(what, address, || {
        let mut cursor = Cursor::new(reference);
        shared::parse(&mut cursor, kind, store.offset_size, store.length_size, reference.len())
    })?;
    let SharedMessage::SharedInOhdr { address: target, .. } = parsed else {
        return Err(NetcdfError::Unsupported("a table of shared messages (SOHM)".to_owned()));
    };
    let found = ObjectHeader::read(store, target)?;
    match found.first(kind) {
        Some(message) if message.flags & SHARED == 0 => Ok(message.clone()),
        _ => Err(NetcdfError::corrupt(what, store.offset(address), "nothing is at its target")),
    }
}

struct Reader<'a> {
    store: &'a Store,
    address: u64,
    messages: Vec<Message>,
    continuations: VecDeque<(u64, u64)>,
    seen: HashSet<u64>,
    budget: u64,
}

impl Reader<'_> {
    fn block(&mut self, address: u64, length: u64) -> Result<Vec<u8>, NetcdfError> {
        self.budget = self
            .budget
            .checked_sub(length)
            .ok_or_else(|| self.corrupt(format!("it is longer than {HEADER_BYTES_MAX} bytes")))?;
        self.store.read("an object header", address, length)
    }

    fn corrupt(&self, reason: impl Into<String>) -> NetcdfError {
        NetcdfError::corrupt("an object header", self.store.offset(self.address), reason)
    }

    fn short(&self) -> NetcdfError {
        self.corrupt("it is cut short")
    }

    fn version_1(&mut self) -> Result<(), NetcdfError> {
        let prefix = self.block(self.address, 16)?;
        let mut bytes = Bytes::new(&prefix);
        if bytes.u8() != Some(1) {
            return Err(self.corrupt("it has no known version"));
        }
        bytes.skip(7).ok_or_else(|| self.short())?;
        let length = bytes.u32_le().ok_or_else(|| self.short())?;
        self.continuations.push_back((self.address.saturating_add(16), u64::from(length)));
        while let Some((address, length)) = self.next_block()? {
            let block = self.block(address, length)?;
            self.messages_1(address, &block)?;
        }
        Ok(())
    }

    fn messages_1(&mut self, address: u64, block: &[u8]) -> Result<(), NetcdfError> {
        let mut bytes = Bytes::new(block);
        while bytes.remaining() >= 8 {
            let (kind, flags, data) = envelope_1(&mut bytes).ok_or_else(|| self.short())?;
            self.add(kind, flags, None, message_address(address, block, &bytes, data), data)?;
        }
        Ok(())
    }

    fn version_2(&mut self) -> Result<(), NetcdfError> {
        const TIMES: u8 = 0x20;
        const PHASE_CHANGE: u8 = 0x10;
        const CREATION_ORDER: u8 = 0x04;
        let start = self.block(self.address, 6)?;
        let [.., version, flags] = start.as_slice() else { return Err(self.short()) };
        let flags = *flags;
        if *version != 2 {
            return Err(self.corrupt("it has no known version"));
        }
        let size_bytes = 1_u64 << (flags & 3);
        let optional = if flags & TIMES == 0 { 0_u64 } else { 16 };
        let optional = optional.saturating_add(if flags & PHASE_CHANGE == 0 { 0 } else { 4 });
        let prefix_bytes = optional.saturating_add(size_bytes).saturating_add(6);
        let prefix = self.block(self.address, prefix_bytes)?;
        let size = prefix
            .get(usize::try_from(optional.saturating_add(6)).unwrap_or(usize::MAX)..)
            .and_then(|size| Bytes::new(size).uint_le(size.len()))
            .ok_or_else(|| self.short())?;
        let summed = prefix_bytes.saturating_add(size);
        let block = self.block(self.address, summed.saturating_add(4))?;
        let ordered = flags & CREATION_ORDER != 0;
        self.checked_messages_2(self.address, &block, prefix_bytes, ordered)?;
        while let Some((address, length)) = self.next_block()? {
            let block = self.block(address, length)?;
            if !block.starts_with(b"OCHK") {
                return Err(self.corrupt("a continuation lacks its signature"));
            }
            self.checked_messages_2(address, &block, 4, ordered)?;
        }
        Ok(())
    }

    /// The messages of a block that ends with a checksum.
    fn checked_messages_2(
        &mut self,
        address: u64,
        block: &[u8],
        prefix_bytes: u64,
        ordered: bool,
    ) -> Result<(), NetcdfError> {
        let (body, checksum) = block.split_last_chunk::<4>().ok_or_else(|| self.short())?;
        if jenkins_lookup3(body) != u32::from_le_bytes(*checksum) {
            return Err(self.corrupt("its checksum is wrong"));
        }
        let mut bytes = Bytes::new(body);
        bytes
            .skip(usize::try_from(prefix_bytes).unwrap_or(usize::MAX))
            .ok_or_else(|| self.short())?;
        // What is too short for a message is a gap.
        while bytes.remaining() >= if ordered { 6 } else { 4 } {
            let (kind, flags, order, data) =
                envelope_2(&mut bytes, ordered).ok_or_else(|| self.short())?;
            let at = message_address(address, body, &bytes, data);
            self.add(u16::from(kind), flags, order, at, data)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        kind: u16,
        flags: u8,
        order: Option<u16>,
        address: u64,
        data: &[u8],
    ) -> Result<(), NetcdfError> {
        match kind {
            0 => {}
            kind::CONTINUATION => {
                let mut bytes = Bytes::new(data);
                let target = self.store.address(&mut bytes).ok_or_else(|| self.short())?;
                let length = self.store.length(&mut bytes).ok_or_else(|| self.short())?;
                let target = target.ok_or_else(|| self.corrupt("a continuation is nowhere"))?;
                self.continuations.push_back((target, length));
            }
            _ => self.messages.push(Message { kind, flags, order, address, data: data.to_vec() }),
        }
        Ok(())
    }

    /// The next block of messages; none is read twice.
    fn next_block(&mut self) -> Result<Option<(u64, u64)>, NetcdfError> {
        let Some((address, length)) = self.continuations.pop_front() else { return Ok(None) };
        if !self.seen.insert(address) {
            return Err(self.corrupt("its continuations form a circle"));
        }
        Ok(Some((address, length)))
    }
}

/// Address of `data`, which `rest` has just gone past in `block`.
fn message_address(block_address: u64, block: &[u8], rest: &Bytes<'_>, data: &[u8]) -> u64 {
    let behind = block.len().saturating_sub(rest.remaining());
    block_address.saturating_add(behind.saturating_sub(data.len()) as u64)
}

/// Kind, flags and content of a message of version 1.
fn envelope_1<'a>(bytes: &mut Bytes<'a>) -> Option<(u16, u8, &'a [u8])> {
    let (kind, size, flags) = (bytes.u16_le()?, bytes.u16_le()?, bytes.u8()?);
    bytes.skip(3)?;
    Some((kind, flags, bytes.take(usize::from(size))?))
}

/// Kind, flags, creation order and content of a message of version 2.
fn envelope_2<'a>(bytes: &mut Bytes<'a>, ordered: bool) -> Option<(u8, u8, Option<u16>, &'a [u8])> {
    let (kind, size, flags) = (bytes.u8()?, bytes.u16_le()?, bytes.u8()?);
    let order = if ordered { Some(bytes.u16_le()?) } else { None };
    Some((kind, flags, order, bytes.take(usize::from(size))?))
}
