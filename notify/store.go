package notify

import "github.com/bellhopd/bellhop/notify/store"

// What a program needs of the store in which notifications wait. Package store
// says what each is.
type (
	Store       = store.Store
	Config      = store.Config
	Keys        = store.Keys
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

// Away reports whether a call that failed with err may succeed later: see store.Away.
func Away(err error) bool { return store.Away(err) }

// Refused reports whether Redis does not let its user do what was asked: see store.Refused.
func Refused(err error) bool { return store.Refused(err) }

// SentinelsRefuse reports whether err is that of sentinels: see store.SentinelsRefuse.
func SentinelsRefuse(err error) bool { return store.SentinelsRefuse(err) }

// Untouched reports whether Redis did not carry out a call that failed with err: see store.Untouched.
func Untouched(err error) bool { return store.Untouched(err) }

// Rights returns the least rights of a Redis user under a prefix: see store.Rights.
func Rights(prefix string) string { return store.Rights(prefix) }

// RepairRights returns those of a user who repairs: see store.RepairRights.
func RepairRights(prefix string) string { return store.RepairRights(prefix) }

// RedactURLs returns addresses without their passwords: see store.RedactURLs.
func RedactURLs(urls string) string { return store.RedactURLs(urls) }

// DecodeRecord reads a record as Redis holds it. What is not one is an ErrRecord.
func DecodeRecord(raw string) (Record, error) { return store.DecodeRecord(raw) }

// ParseBell reads a bell as the carrier rings it: see store.ParseBell.
func ParseBell(text string) (Bell, error) { return store.ParseBell(text) }

// Open returns the store that c describes, as store.Open does.
func Open(c Config) (*Store, error) { return store.Open(c) }

// NewID returns a new id: a ULID, 26 characters that sort by time
// (https://github.com/ulid/spec), ascending within a process.
func NewID() string { return store.NewID() }

// ParsePosition reads a position as its String writes it. The error is an ErrInvalid.
func ParsePosition(text string) (Position, error) { return store.ParsePosition(text) }
