package calls

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
)

type topicsInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
	Cursor string `query:"cursor" is:"any topic" maxLength:"134" pattern:"^(\\$dead\\.)?[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*(@[A-Za-z0-9_-]+)?$" doc:"cursor of the previous page; missing: from the beginning"`
}

var _ = define(Call{
	Name: "listTopics", Method: "GET", Path: "/v1/topics", Tag: TagOperate, Status: http.StatusOK, Reply: Topics{}, NATS: Plain,
	Summary: "Count the messages of every topic, a page at a time",
}, func(ctx context.Context, s *Service, r *Request, in *topicsInput) (any, error) {
	counts, next, err := s.Inspector.TopicsAfter(ctx, in.Cursor, in.Limit, r.Patterns...)
	missing, err := api.MissingOf(err)
	if err == nil {
		err = store.NoteLeases(ctx, s.Store, counts)
	}
	page := Topics{Topics: make([]Topic, len(counts)), Cursor: next, Missing: missing}
	for i, one := range counts {
		page.Topics[i] = TopicOf(one)
	}
	return reply(page, err)
})

var _ = define(Call{
	Name: "countTopic", Method: "GET", Path: PathTopic, Tag: TagOperate, Status: http.StatusOK, Reply: Topic{}, NATS: ByTopic,
	Summary: "Count the messages of a topic",
}, func(ctx context.Context, s *Service, r *Request, in *OfTopic) (any, error) {
	counts, err := s.Inspector.Count(ctx, in.Topic)
	if err == nil {
		err = store.NoteLeases(ctx, s.Store, counts)
	}
	if err != nil {
		return nil, err
	}
	return TopicOf(counts[0]), nil
})

type keysInput struct {
	OfTopic
	Sort  string `query:"sort" enum:"blocked,oldest" default:"blocked" doc:"blocked: those of which most messages are blocked first; oldest: by the due time of the first blocked message"`
	Limit int    `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"list at most this many"`
}

var _ = define(Call{
	Name: "listKeys", Method: "GET", Path: PathTopic + "/keys", Tag: TagOperate, Status: http.StatusOK, Reply: Keys{}, NATS: ByTopic, Lasts: true, Long: true,
	Rights: []Right{MayPublish, MayConsume}, Summary: "List the keys of which messages are blocked, and what each waits for",
}, func(ctx context.Context, s *Service, r *Request, in *keysInput) (any, error) {
	keys, all, err := store.ListKeys(ctx, s.Store, in.Topic, store.KeyOrder(in.Sort), in.Limit)
	found := Keys{Keys: make([]BlockedKey, len(keys)), All: all}
	for i, one := range keys {
		found.Keys[i] = BlockedKey{Key: one.Key, Blocked: one.Blocked, Oldest: api.Given(one.Oldest), Behind: HoldersOf(one.Seats)}
	}
	return reply(found, err)
})

// ofSettings is the input of a call about settings.
type ofSettings struct {
	Topic string `path:"topic" is:"topic or *" maxLength:"128" pattern:"^(\\*|[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*(@[A-Za-z0-9_-]+)?)$" example:"order.timeout" doc:"a topic, which need not exist yet; * for the defaults of topics without settings of their own, which needs a token for all topics"`
}

// allow returns an api.ErrForbidden for notify.AllTopics unless the client may use all topics.
func (in *ofSettings) allow(r *Request) error {
	if in.Topic == notify.AllTopics {
		return r.AllowAll()
	}
	return nil
}

const settingsNATS = "settings.TOPIC, and defaults for the topic *, read them without data, and change them with data"

// Settings and ChangeSettings read and change the settings of a topic.
var (
	Settings = define(Call{
		Name: "settings", Method: "GET", Path: PathTopic + "/settings", Tag: TagOperate, Status: http.StatusOK, Reply: api.Settings{}, NoNATS: settingsNATS,
		Summary: "Get the settings of a topic",
	}, func(ctx context.Context, s *Service, r *Request, in *ofSettings) (any, error) {
		if err := in.allow(r); err != nil {
			return nil, err
		}
		settings, err := s.Inspector.Settings(ctx, in.Topic)
		return reply(api.SettingsOf(in.Topic, settings), err)
	})
	ChangeSettings = define(Call{
		Name: "changeSettings", Method: "PATCH", Path: PathTopic + "/settings", Tag: TagOperate, Status: http.StatusOK, Reply: api.Settings{}, NoNATS: settingsNATS,
		Request: notify.SettingsChange{}, RequestType: MergePatch, Rights: []Right{MayAdmin}, Errors: []int{413}, Summary: "Change settings of a topic",
		Description: "A setting that is not given stays as it is. null restores the default: that of the topic *, or else a built-in one. Settings stay when nothing else is left of the topic. Values that a message or a claim gives itself take precedence. Leased messages keep the lease of their claim.",
	}, func(ctx context.Context, s *Service, r *Request, in *ofSettings) (any, error) {
		if err := in.allow(r); err != nil {
			return nil, err
		}
		change, err := api.DecodeSettings(in.Topic, r.Body)
		if err != nil {
			return nil, err
		}
		settings, err := s.Inspector.Set(ctx, in.Topic, change)
		return reply(api.SettingsOf(in.Topic, settings), err)
	})
)

// MergePatch is the content type of a JSON object whose members replace others, where
// null removes one (RFC 7396).
const MergePatch = "application/merge-patch+json"

type pauseInput struct {
	OfTopic
	Until string `query:"until" pattern:"^([0-9.]+(d|h|ms|m|s|us|µs|ns)[0-9.a-zµ]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+))$" example:"60s" doc:"when the topic is resumed by itself: how long from now on, at most 8784h, or a time to come; missing: not before it is resumed by a call"`
}

var _ = define(Call{
	Name: "pause", Method: "POST", Path: PathTopic + "/pause", Tag: TagOperate, Status: http.StatusNoContent, NATS: ByTopic,
	Rights: []Right{MayAdmin}, Summary: "Stop handing out the messages of a topic",
	Description: "A topic that is paused already gets the end that is given, or none.",
}, func(ctx context.Context, s *Service, r *Request, in *pauseInput) (any, error) {
	if in.Until == "" {
		return nil, s.Inspector.Pause(ctx, in.Topic)
	}
	end, err := pauseEnd(in.Until)
	if err != nil {
		return nil, err
	}
	_, err = store.PauseUntil(ctx, s.Store, in.Topic, end)
	return nil, err
})

// pauseEnd reads the end of a pause: how long from now on, such as 60s, or a time of RFC 3339. The
// error is a fault.Fault of the field until.
func pauseEnd(text string) (store.When, error) {
	const field = "until"
	if at, err := fields.ParseTime(field, text); err == nil {
		return store.At(at), nil
	}
	d, err := fields.ParseDuration(field, text)
	switch {
	case err != nil || text == "":
		return 0, fault.New(field, "%s %.100q: write how long from now on, such as 60s, 1h30m or 1d, or a time such as 2030-01-02T15:04:05Z", field, text)
	case d <= 0 || d > store.LongestPause:
		return 0, fault.New(field, "%s %v: use 1ms to %v, or a time to come", field, d, fault.Short(store.LongestPause))
	}
	return store.In(d), nil
}

var _ = define(Call{
	Name: "resume", Method: "POST", Path: PathTopic + "/resume", Tag: TagOperate, Status: http.StatusNoContent, NATS: ByTopic,
	Rights: []Right{MayAdmin}, Summary: "Resume handing out the messages of a topic",
}, func(ctx context.Context, s *Service, r *Request, in *OfTopic) (any, error) {
	return nil, s.Inspector.Resume(ctx, in.Topic)
})

type deadListInput struct {
	OfTopic
	paged
}

var _ = define(Call{
	Name: "listDead", Method: "GET", Path: PathTopic + "/dead", Tag: TagOperate, Status: http.StatusOK, Reply: api.Page{}, NATS: ByTopic, Long: true,
	Rights: []Right{MayConsume}, Summary: "List dead letters, oldest death first",
}, func(ctx context.Context, s *Service, r *Request, in *deadListInput) (any, error) {
	return page(s.Inspector.List(ctx, in.Topic, notify.Dead, in.Limit, in.Cursor))
})

// Keys are keys of a topic of which messages are blocked.
type Keys struct {
	Keys []BlockedKey `json:"keys" nullable:"false" doc:"the first ones"`
	All  int64        `json:"all" doc:"how many there are"`
}

// BlockedKey is a key of which messages are blocked.
type BlockedKey struct {
	Key     string     `json:"key" example:"acct-7"`
	Blocked int64      `json:"blocked" doc:"messages that are"`
	Oldest  *time.Time `json:"oldest,omitempty" doc:"when the first of these was due"`
	Behind  []Holder   `json:"behind" nullable:"false" doc:"the messages for which these wait, at most 10"`
}

// Holder is a message for which others of its key wait.
type Holder struct {
	ID      string       `json:"id" example:"tx-8"`
	State   notify.State `json:"state,omitzero" enum:"ready,leased,scheduled,dead" doc:"scheduled: it was put off; dead: nothing of the key goes until it is requeued, purged or replaced; missing: it is gone, and the carrier will notice"`
	Worker  string       `json:"worker,omitempty" doc:"if leased, the name of the worker that has it; missing: unknown"`
	Claimed *time.Time   `json:"claimed,omitempty" doc:"if leased, since when; missing: unknown"`
}

// HoldersOf returns the messages on the seats of a key in their JSON form.
func HoldersOf(seats []store.Seat) []Holder {
	all := make([]Holder, len(seats))
	for i, seat := range seats {
		all[i] = Holder{ID: seat.ID, State: seat.State, Worker: seat.By, Claimed: api.Given(seat.Since)}
	}
	return all
}

// Behind says in one line for which message the blocked ones of a key wait. Ago tells how long
// ago it was claimed.
func Behind(seats []Holder, ago func(time.Time) string) string {
	if len(seats) == 0 {
		return ""
	}
	one := seats[0]
	text := one.ID + ", " + one.State.String()
	switch {
	case one.State == 0:
		text = one.ID + ", gone"
	case one.State == notify.Scheduled:
		text = one.ID + ", put off"
	case one.State == notify.Dead:
		text += ", bars the key"
	case one.Worker != "":
		text += " by " + one.Worker
	}
	if one.Claimed != nil {
		text += " for " + ago(*one.Claimed)
	}
	if len(seats) > 1 {
		text += fmt.Sprintf(", and %d more", len(seats)-1)
	}
	return text
}

// Topic counts the messages of a topic.
type Topic struct {
	notify.Counts
	OverdueMs       int64 `json:"overdue_ms" doc:"how long its oldest ready message has been due" example:"1500"`
	BehindMs        int64 `json:"behind_ms" doc:"how long its oldest scheduled message has been due: no carrier made it ready" example:"0"`
	OldestBlockedMs int64 `json:"oldest_blocked_ms" doc:"how long its oldest blocked message has been due" example:"1500"`
	OldestLeaseMs   int64 `json:"oldest_lease_ms" doc:"for how long a worker that told its name has had a message; 0: none has" example:"0"`
	LatenessMs      int64 `json:"lateness_ms" doc:"from due to claimed, of the oldest message of the last claim" example:"2"`
}

// TopicOf returns the counts of a topic in their JSON form.
func TopicOf(c notify.Counts) Topic {
	return Topic{Counts: c, OverdueMs: api.Ms(c.Overdue), BehindMs: api.Ms(c.Behind), OldestBlockedMs: api.Ms(c.OldestBlocked), OldestLeaseMs: api.Ms(c.OldestLease), LatenessMs: api.Ms(c.Lateness)}
}

// Topics counts the messages of topics, by name: one page.
type Topics struct {
	Topics []Topic `json:"topics" nullable:"false" doc:"may be fewer than the limit, or none, on a page that is not the last: see cursor"`
	Cursor string  `json:"cursor,omitempty" doc:"give it as cursor for the next page; missing: this is the last one"`
	api.Missing
}
