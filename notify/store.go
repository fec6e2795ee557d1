package notify

import "github.com/bellhopd/bellhop/notify/store"

// What a program needs of the store in which notifications wait. Package store
// says what each is.
type (
	Store       = store.Store
	Config      = store.Config
	Keys        = store.Keys
	Script      = store.Script
	Event       = store.Event
	EventKind   = store.EventKind
	Bell        = store.Bell
	Position    = store.Position
	Record      = store.Record
	Memory      = store.Memory
	RightsError = store.RightsError
	ServerError = store.ServerError
)

// Constants of a store.
const (
	DefaultMemoryShare = store.DefaultMemoryShare
	DefaultPrefix      = store.DefaultPrefix
	DefaultURL         = store.DefaultURL
	Format             = store.Format
	Heartbeat          = store.Heartbeat
	MaxWaitReplicas    = store.MaxWaitReplicas
	MinRedis           = store.MinRedis
	Silence            = store.Silence

	ModeMessage   = store.ModeMessage
	ModeBroadcast = store.ModeBroadcast

	Subscribed = store.Subscribed
	Heard      = store.Heard
	Beat       = store.Beat
	Silent     = store.Silent
	Broken     = store.Broken
)

// Errors of a store to branch on, with errors.Is.
var (
	ErrInvalid      = store.ErrInvalid
	ErrFull         = store.ErrFull
	ErrNoRedis      = store.ErrNoRedis
	ErrRecord       = store.ErrRecord
	ErrUnfit        = store.ErrUnfit
	ErrUnreplicated = store.ErrUnreplicated
)

// MaxDue is the latest due time, the end of the year 9999.
var MaxDue = store.MaxDue

// Away, Refused, SentinelsRefuse and Untouched tell errors of a store apart.
var (
	Away            = store.Away
	Refused         = store.Refused
	SentinelsRefuse = store.SentinelsRefuse
	Untouched       = store.Untouched
)

// What other packages need until all scripts stand in package store.
var (
	NewScript    = store.NewScript
	DecodeRecord = store.DecodeRecord
	ParseBell    = store.ParseBell
	RedactURLs   = store.RedactURLs
	RepairRights = store.RepairRights
	Rights       = store.Rights
)

// Open returns the store that c describes, as store.Open does.
func Open(c Config) (*Store, error) { return store.Open(c) }

// only returns the shard of a store that holds all topics.
func only(s *Store) store.Shard { return s.Shards()[0] }

// NewID returns a new id: a ULID, 26 characters that sort by time
// (https://github.com/ulid/spec), ascending within a process.
func NewID() string { return store.NewID() }

// ParsePosition reads a position as its String writes it. The error is an ErrInvalid.
func ParsePosition(text string) (Position, error) { return store.ParsePosition(text) }
