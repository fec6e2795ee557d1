package console

import (
	"time"

	"github.com/bellhopd/bellhop/daemon/cache"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/console/river"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/forecast"
	"github.com/bellhopd/bellhop/notify/reasons"
	"github.com/bellhopd/bellhop/notify/store"
)

const (
	relisted  = 3 * time.Second // how long lists of messages, schedules and pushes stand
	reordered = 5 * time.Second // how long an order of topics stands
)

// relogged is how long the lists of logs and of listeners stand.
var relogged = cache.Keep{Age: 5 * time.Second}

// caches are what pages read of Redis beside snapshots, kept for all viewers.
type caches struct {
	topics    cache.Map[topicsPart]
	begun     cache.Map[[]string] // names of topics that begin with a text
	details   cache.Map[topicDetail]
	messages  cache.Map[notify.Info]
	pieces    cache.Map[[]byte]
	past      cache.Map[[]river.Bar]
	work      cache.Map[workPart]
	deaths    cache.Map[forecast.Deaths]
	schedules cache.Map[schedulesPart]
	schedule  cache.Map[scheduleRead]
	reasons   cache.Map[[]reasons.Reason] // one; an act has it forgotten, and does not wait while it is read

	pushes    cache.Value[[]store.Push]
	leased    cache.Value[map[string]int64] // of pushes, by name
	pushed    cache.Map[pushedTopics]       // by the name of the push
	logs      cache.Value[[]store.LogEnd]
	announced cache.Value[announced]
	listeners cache.Value[[]notify.ListenerInfo]
	workers   cache.Value[attended]
	outboxes  cache.Value[calls.Outboxes]
}

// attended are the workers that are there, and what they have in hand.
type attended struct {
	workers []notify.Worker
	hand    store.InHand
}

// announced are the topics with broadcasts to come.
type announced struct {
	topics []store.Notable // by when the next one is due
	more   bool            // there may be others
}

// A topicDetail is what is kept of a topic beside its counts.
type topicDetail struct {
	Settings []settingRow
	branches []string
	InHand   []messageRow
	Next     []messageRow // that fall due next
	Sends    []messageRow // broadcasts that fall due next
	Keys     []keyRow     // that have waited longest
}

// A keyRow is a key of which messages are blocked.
type keyRow struct {
	store.Key
	Link   string // address of its messages
	Behind string // for which they wait
}

// A scheduleRead is what is kept of a schedule.
type scheduleRead struct {
	store.Listed
	last []store.Inspected // messages of the occurrences that were made last, without their bodies
}

// Topics of a push, those that its patterns name among them, and whether these are all.
type pushedTopics struct {
	topics []string
	all    bool
}
