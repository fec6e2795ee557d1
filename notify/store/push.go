package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/store/script"
)

var (
	pushScript   = script.New("push", script.Promised)
	pushesScript = script.New("pushes")
)

// Defaults and limits of a Push.
const (
	DefaultPushInFlight = 32
	DefaultPushTimeout  = 10 * time.Second // of a request to a URL
	DefaultNATSTimeout  = 30 * time.Second // for an answer over NATS
	MaxPushes           = 1000
	maxPushSecrets      = 2  // of which one replaces the other
	minPushSecret       = 24 // bytes, as Standard Webhooks has it
	maxPushSecret       = 64
)

// secretPrefix is what a secret of Standard Webhooks begins with.
const secretPrefix = "whsec_"

// toNATS is what the subject in Push.To stands behind.
const toNATS = "nats:"

// A Push hands the messages of topics, or the broadcasts of a pattern, on to a URL or to NATS, from the daemons. The zero values of
// InFlight and Timeout are the defaults. The tags describe what a client says of it, over HTTP and as flags.
type Push struct {
	Name       string            `json:"-"`
	Topics     []string          `json:"topics" field:"topics" minItems:"1" maxItems:"32" example:"order.paid" doc:"1 to 32 topics, or patterns such as order.* or order.>, of which none can match a topic of another push; of broadcasts one"`
	URL        string            `json:"url,omitempty" field:"url" maxLength:"2048" example:"https://crm.example/hook" doc:"https, or http to a net that BELLHOP_PUSH_ALLOW names"`
	To         string            `json:"to,omitempty" field:"to" maxLength:"260" example:"nats:crm.>" doc:"in place of url and secrets: nats:SUBJECT; the topic takes the place of a last token >"`
	Secrets    []string          `json:"secrets,omitempty" field:"secrets" maxItems:"2" example:"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" doc:"whsec_ and the base64 of 24 to 64 random bytes, which sign each request as Standard Webhooks says; two while receivers change; missing: those that the push has"`
	Broadcasts bool              `json:"broadcasts,omitempty" field:"broadcasts" example:"true" doc:"true: send broadcasts in place of messages, as a named listener does that keeps its place; to a URL"`
	InFlight   int               `json:"in_flight" field:"in_flight" minimum:"1" maximum:"1000" example:"8" doc:"missing: 32, of broadcasts 1, so that they come in order; most messages of a topic that each daemon has handed on, and that are not settled"`
	Timeout    time.Duration     `json:"timeout" field:"timeout" shortest:"100ms" longest:"24h" example:"30s" doc:"for an answer; missing: 10s to a URL, 30s to NATS"`
	Paused     string            `json:"paused,omitempty"`  // why; empty: it is not paused
	Failing    *PushFailure      `json:"failing,omitempty"` // the endpoint fails; nil: it does not, as far as is known
	Closed     *PushClosure      `json:"-"`                 // the endpoint wants no request for some time; nil: it does
	Stored     map[string]string `json:"-"`                 // of NATS: a subject on which nobody listens, and the stream that stores what is sent there; nil: none is known
	Unsent     bool              `json:"-"`                 // no daemon runs that sends such pushes, as NoteUnsent found
	Dropped    []string          `json:"-"`                 // topics of which ChangePush dropped broadcasts that were still to be sent
}

// A PushFailure is why the endpoint of a push is asked by few requests.
type PushFailure struct {
	Since  time.Time `json:"since"`
	Answer string    `json:"answer"` // the last
	Next   time.Time `json:"-"`      // when the daemon that asked last asks again, by Redis's clock, if there is a message; zero: unknown
}

// A PushClosure is until when the endpoint of a push wants no request.
type PushClosure struct {
	Until  time.Time     // by Redis's clock
	Left   time.Duration // until then, when the push was read
	Answer string        // with which the endpoint said so
}

// Check returns a joined Fault for each field that is wrong.
func (p *Push) Check() error {
	faults := []error{record.CheckListener(p.Name), p.checkTopics(), fields.Check(p, false)}
	switch {
	case p.Broadcasts && p.IsNATS():
		faults = append(faults, fault.New("to", "to %.100q: broadcasts are sent to NATS anyway, on PREFIX.broadcast.TOPIC; give a url, or leave broadcasts out", p.To))
	case p.To == "":
		faults = append(faults, p.checkURL(), p.checkSecrets())
	case p.URL != "" || len(p.Secrets) > 0:
		faults = append(faults, fault.New("to", "to %.100q: a push to NATS has neither url nor secrets; leave them out, or this", p.To))
	default:
		faults = append(faults, p.checkTo())
	}
	return errors.Join(faults...)
}

func (p *Push) checkTopics() error {
	switch {
	case !p.Broadcasts:
		return record.CheckPatterns(p.Topics)
	case len(p.Topics) != 1:
		return fault.New("topics", "topics: there are %d; broadcasts are those of one topic or pattern, such as prices.*", len(p.Topics))
	}
	_, bad := record.ParsePattern(p.Topics[0])
	return errors.Join(fault.Renamed("topics", bad), record.CheckListener(p.Listener()))
}

// Listener returns the name under which a push of broadcasts listens.
func (p *Push) Listener() string { return pushListener + p.Name }

// subjectGrammar is that of a literal subject of NATS, or of one whose last token stands for the topic.
var subjectGrammar = regexp.MustCompile(`^nats:[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.>)?$`)

func (p *Push) checkTo() error {
	switch subject := strings.TrimPrefix(p.To, toNATS); {
	case !subjectGrammar.MatchString(p.To):
		return fault.New("to", "to %.100q: write nats:SUBJECT, tokens of letters, digits, _ and -, joined by dots; a last token > stands for the topic", p.To)
	case strings.HasPrefix(subject, "_INBOX."):
		return fault.New("to", "to %s: answers go there, and messages would pass for them; use another subject", p.To)
	}
	return nil
}

// IsNATS reports whether the push hands messages on to NATS.
func (p *Push) IsNATS() bool { return p.To != "" }

// Subject returns the subject of NATS to which the messages of a topic go; of the topic ">" that of all topics.
func (p *Push) Subject(topic string) string {
	subject := strings.TrimPrefix(p.To, toNATS)
	if before, whole := strings.CutSuffix(subject, ">"); whole {
		return before + topic
	}
	return subject
}

// checkURL checks what can be told without a look-up: each connection is judged by its address.
func (p *Push) checkURL() error {
	u, err := url.Parse(p.URL)
	switch {
	case p.URL == "":
		return fault.New("url", "url: it is missing; write https://HOST/PATH, or give to, nats:SUBJECT")
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return fault.New("url", "url %.100q: write https://HOST/PATH", p.URL)
	case u.User != nil:
		return fault.New("url", "url: it names a user, and would show its password; leave USER:PASSWORD@ out, the requests are signed")
	case u.Fragment != "":
		return fault.New("url", "url %.100q: what follows # is not sent; leave it out", p.URL)
	case strings.Contains(p.URL, " ") || !isASCII(u.RawQuery):
		return fault.New("url", "url %.100q: a blank, and what is not ASCII in its query, would be sent as it is; write it as percent signs and hex, such as %%20", p.URL)
	case u.Port() != "" && !isPort(u.Port()):
		return fault.New("url", "url %.100q: no port is %s; write one of 1 to 65535", p.URL, u.Port())
	}
	return nil
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

func (p *Push) checkSecrets() error {
	if len(p.Secrets) == 0 || len(p.Secrets) > maxPushSecrets {
		return fault.New("secrets", "secrets: there are %d; give one, or the new and the old one while receivers change", len(p.Secrets))
	}
	for _, secret := range p.Secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if !strings.HasPrefix(secret, secretPrefix) || err != nil || len(key) < minPushSecret || len(key) > maxPushSecret {
			return fault.New("secrets", "secrets: one is no secret of Standard Webhooks; write %s and the base64 of %d to %d random bytes, as: echo %s$(head -c 32 /dev/urandom | base64)", secretPrefix, minPushSecret, maxPushSecret, secretPrefix)
		}
	}
	return nil
}

// withDefaults returns the push with defaults in place of zero values.
func (p Push) withDefaults() Push {
	switch {
	case p.InFlight != 0:
	case p.Broadcasts:
		p.InFlight = 1 // so they come in order
	default:
		p.InFlight = DefaultPushInFlight
	}
	switch {
	case p.Timeout != 0:
	case p.IsNATS():
		p.Timeout = DefaultNATSTimeout
	default:
		p.Timeout = DefaultPushTimeout
	}
	return p
}

// ErrNoPush is the error of a name that no push has.
var ErrNoPush = errors.New("no push has this name")

// PausePush pauses a push with a reason; without one it resumes the push. Errors: ErrNoPush, or as ChangePush.
func (s Shard) PausePush(ctx context.Context, name, reason string) error {
	return s.ChangePush(ctx, name, func(p *Push) (*Push, error) {
		if p == nil {
			return nil, fmt.Errorf("%s: %w", name, ErrNoPush)
		}
		p.Paused = reason
		return p, nil
	})
}

// RemovePush removes a push. Its messages stay as they are. It may be repeated until what it listened under is removed from all shards.
// Errors: ErrNoPush, or as ChangePush.
func (s Shard) RemovePush(ctx context.Context, name string) error {
	err := s.ChangePush(ctx, name, func(p *Push) (*Push, error) {
		if p == nil {
			return nil, fmt.Errorf("%s: %w", name, ErrNoPush)
		}
		return nil, nil
	})
	if errors.Is(err, ErrNoPush) {
		if err := s.store.ForgetPushListeners(ctx); err != nil {
			return err
		}
	}
	return err
}

// Replacing returns the push as it replaces the one of its name, nil if there is none: paused if that is, and without secrets of its own
// with those of that.
func (p Push) Replacing(before *Push) *Push {
	p.Failing, p.Closed, p.Paused = nil, nil, ""
	if before != nil {
		p.Paused = before.Paused
		if len(p.Secrets) == 0 && !p.IsNATS() {
			p.Secrets = before.Secrets
		}
	}
	return &p
}

// PutPush adds a push, or replaces the one of its name, see [Push.Replacing]. Errors are those of ChangePush.
func (s Shard) PutPush(ctx context.Context, p Push) error {
	return s.ChangePush(ctx, p.Name, func(before *Push) (*Push, error) { return p.Replacing(before), nil })
}

// Push returns the push of a name, from the shard that is Home. Errors: ErrNoPush, or that of the connection.
func (s Shard) Push(ctx context.Context, name string) (Push, error) {
	all, err := s.Pushes(ctx)
	if err != nil {
		return Push{}, err
	}
	if p := pushNamed(all, name); p != nil {
		return *p, nil
	}
	return Push{}, fmt.Errorf("%s: %w", name, ErrNoPush)
}

// pushNamed returns the push of a name, nil if there is none.
func pushNamed(all []Push, name string) *Push {
	if i := slices.IndexFunc(all, func(p Push) bool { return p.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Pushes returns all pushes by their names, from the shard that is Home. The error is that of the connection. A foreign one is left
// out.
func (s Shard) Pushes(ctx context.Context) ([]Push, error) {
	all, _, _, err := s.pushes(ctx)
	return all, err
}

// PushesNamed is Pushes for some names, at most [MaxPushes]; those that no push has are left out.
func (s Shard) PushesNamed(ctx context.Context, names []string) ([]Push, error) {
	if len(names) == 0 {
		return nil, nil
	}
	some, _, _, err := s.pushes(ctx, names...)
	return some, err
}

// pushes returns all pushes, or those of some names, how often all were changed, and how many are foreign.
func (s Shard) pushes(ctx context.Context, names ...string) (all []Push, seen string, foreign int, err error) {
	r, err := s.Run(ctx, pushesScript, anys(names)...)
	if err != nil {
		return nil, "", 0, err
	}
	tries, now := make(map[string]string), time.UnixMilli(r.Integer())
	for seen = "0"; r.More(); {
		name, text := r.Text(), r.Text()
		p := Push{Name: name}
		switch of, noted := strings.CutPrefix(name, "*"); {
		case noted && of == "":
			seen = text
		case noted:
			tries[of] = text
		case json.Unmarshal([]byte(text), &p) == nil && p.Check() == nil:
			all = append(all, p.withDefaults())
		default:
			foreign++
		}
	}
	for i := range all {
		all[i].tried(tries[all[i].Name], now)
	}
	slices.SortFunc(all, func(a, b Push) int { return strings.Compare(a.Name, b.Name) })
	return all, seen, foreign, r.End()
}

// ChangePush changes the push of a name, in the shard that is Home. change gets it, nil if there is none, and returns what
// becomes of it, to which ChangePush adds the defaults: nil removes it. change is called again where another change came in between. A push of
// broadcasts gets those that are sent from then on; with another pattern it begins where it stood. Errors: those of change; a Fault for a
// topic that another push has or can match, or for too many pushes; an ErrUnreplicated, or that of the connection.
func (s Shard) ChangePush(ctx context.Context, name string, change func(*Push) (*Push, error)) error {
	for {
		all, seen, _, err := s.pushes(ctx)
		if err != nil {
			return err
		}
		before := pushNamed(all, name)
		after, err := change(pushNamed(slices.Clone(all), name)) // which may return it
		if err != nil {
			return err
		}
		if after != nil {
			after.Name = name
			if err := errors.Join(after.Check(), besides(all, after)); err != nil {
				return err
			}
			*after = after.withDefaults()
		}
		listens, from, err := s.store.listensAs(ctx, before, after)
		if err != nil {
			return err
		}
		switch done, err := s.putPush(ctx, seen, name, after, from); {
		case err != nil:
			return err
		case done && listens:
			return s.store.listenElsewhere(ctx, name, after) // behind the change, or a daemon would register it again
		case done:
			return nil
		}
	}
}

// meet reports whether two patterns of pushes could take messages of one topic.
func meet(a, b record.Pattern) bool {
	if topic, one := a.Topic(); one {
		return b.Takes(topic)
	}
	if topic, one := b.Topic(); one {
		return a.Takes(topic)
	}
	return a.Overlaps(b)
}

// besides returns a Fault for a push that cannot be beside the others.
func besides(all []Push, p *Push) error {
	n, ours := 1, make([]record.Pattern, len(p.Topics))
	for i, topic := range p.Topics {
		ours[i], _ = record.ParsePattern(topic) // it was checked, and so were the others
	}
	for _, other := range all {
		if other.Name == p.Name {
			continue
		}
		n++
		if other.Broadcasts && p.Broadcasts && other.URL == p.URL && other.Topics[0] == p.Topics[0] {
			return fault.New("topics", "topics: the push %s sends the broadcasts of %s to this url, too; change or delete that one", other.Name, p.Topics[0])
		}
		if other.Broadcasts || p.Broadcasts {
			continue
		}
		for _, topic := range other.Topics {
			theirs, _ := record.ParsePattern(topic)
			switch i := slices.IndexFunc(ours, func(p record.Pattern) bool { return meet(p, theirs) }); {
			case i < 0:
			case p.Topics[i] == topic:
				return fault.New("topics", "topics: the push %s has the topic %s, and each message goes to one push; take the topic from one of them", other.Name, topic)
			default:
				return fault.New("topics", "topics: the push %s has the topic %s, and a message could match that and %s, but goes to one push; name topics that do not overlap", other.Name, topic, p.Topics[i])
			}
		}
	}
	if n > MaxPushes {
		return fault.New("name", "name: there are %d pushes, and no more are possible; give one more topics", MaxPushes)
	}
	return nil
}

// putPush writes a push, or removes it, and what it listens under, from a position, 0 for now, unless pushes were changed since.
func (s Shard) putPush(ctx context.Context, seen, name string, p *Push, from record.Position) (done bool, err error) {
	text, pattern, begin := "", "", ""
	if p != nil {
		data, _ := json.Marshal(p) // of types that always can
		text = string(data)
		if p.Broadcasts {
			pattern = p.Topics[0]
		}
	}
	if from > 0 {
		begin = strconv.FormatInt(int64(from), 10)
	}
	r, err := s.Run(ctx, pushScript, seen, name, text, pattern, begin)
	if err != nil {
		return false, fmt.Errorf("change the push %s: %w", name, err)
	}
	done = r.Integer() == 1
	return done, r.End()
}
