package notify

import (
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/store/record"
)

// A Store is one Redis and one prefix in it. It is safe for concurrent use. Close it
// after its last use.
type Store = store.Store

// Config is which Redis a Store is in, how to reach it, and the prefix of its keys. The
// zero value means redis://127.0.0.1:6379 and bellhop.
type Config = reach.Config

// Open returns the store that c describes. It connects at its first use. The error is a
// joined Fault for each wrong field.
func Open(c Config) (*Store, error) { return store.Open(c) }

// A Record is what the store keeps of a message until it is gone.
type Record = record.Record

// NewID returns a new id: 16 characters that sort by time, with 54 random bits. Ids
// ascend within a process, also when its clock is set back, and sort by millisecond over
// all processes.
func NewID() string { return record.NewID() }

// A Position is the place of a broadcast among all that a store sent: the time when it
// was sent, made unique. Its UnmarshalText reads it as its String writes it.
type Position = record.Position

// A Pattern matches one topic, or many: a token * stands for any one token, and > at
// the end for one or more.
type Pattern = record.Pattern

// ParsePattern reads a pattern such as prices, prices.* or prices.>. The error is a Fault.
func ParsePattern(text string) (Pattern, error) { return record.ParsePattern(text) }
