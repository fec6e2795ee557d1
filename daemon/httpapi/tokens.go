package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/regular"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// A right is what a token permits to do.
type right string

// The rights. admin includes all others.
const (
	mayPublish right = "publish"
	mayConsume right = "consume"
	mayListen  right = "listen"
	mayMetrics right = "metrics" // of all topics
	mayArchive right = "archive" // all of a row but its body and its result
	mayBodies  right = "archive-bodies"
	mayAdmin   right = "admin"
)

var allRights = []right{mayPublish, mayConsume, mayListen, mayMetrics, mayArchive, mayBodies, mayAdmin}

// A grant is what one line of the tokens file permits.
type grant struct {
	name       string
	hash       [sha256.Size]byte // hash of the token
	rights     []right
	patterns   []notify.Pattern
	everything bool            // also what patterns do not match: the topics of the system
	line       string          // the line as written in the file
	valid      context.Context // ends when a reload revokes the grant
	revoke     func()
	memory     *memory
	streams    atomic.Int64
	searches   api.Searches // of bodies
	pages      atomic.Int64 // of the console
}

// grantAll returns the grant of every caller if there is no tokens file.
func grantAll() *grant {
	return &grant{
		name: "anybody", rights: allRights, patterns: anyTopic(), everything: true,
		valid: context.Background(), memory: newMemory(),
	}
}

func anyTopic() []notify.Pattern {
	p, _ := notify.ParsePattern(">")
	return []notify.Pattern{p}
}

// allowRights returns an errForbidden if none of some rights is granted.
func (g *grant) allowRights(any []right) error {
	if len(any) == 0 || slices.Contains(g.rights, mayAdmin) {
		return nil
	}
	for _, r := range any {
		if slices.Contains(g.rights, r) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s may %s; this needs %s", errForbidden, g.name, listRights(g.rights, " and "), listRights(any, " or "))
}

func listRights(rights []right, join string) string {
	names := make([]string, len(rights))
	for i, r := range rights {
		names[i] = string(r)
	}
	return strings.Join(names, join)
}

// covers reports whether a topic, or every topic of a pattern, is granted.
func (g *grant) covers(topic notify.Pattern) bool {
	return g.everything || slices.ContainsFunc(g.patterns, func(p notify.Pattern) bool { return p.Covers(topic) })
}

// coversAll reports whether all topics are granted; those of deaths need not be.
func (g *grant) coversAll() bool { return g.covers(anyTopic()[0]) }

// allowTopic returns an errForbidden if a topic, or some topic of a pattern, is not granted.
func (g *grant) allowTopic(text string) error {
	p, err := notify.ParsePattern(text)
	if err != nil || g.covers(p) {
		return err
	}
	return fmt.Errorf("%w: %s may not use the topic %s", errForbidden, g.name, text)
}

// allowSettings returns an errForbidden if a topic is not granted. notify.AllTopics
// requires that all topics are.
func (g *grant) allowSettings(topic string) error {
	if topic == notify.AllTopics {
		topic = ">"
	}
	return g.allowTopic(topic)
}

// keys are the accepted tokens. Without a file everybody may do everything.
type keys struct {
	file   string
	all    *grant // grant of every caller if there is no file
	grants atomic.Pointer[[]*grant]

	mu sync.Mutex // held while the file is read
}

// load reads the tokens file. If the file has faults, the error reports all of them, and nothing changes.
func (k *keys) load() error {
	if k.file == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	data, err := regular.Read(k.file)
	if err != nil {
		return fmt.Errorf("read tokens file: %w", err)
	}
	next, err := parseTokens(data)
	if err != nil {
		return fmt.Errorf("tokens file %s: %w", k.file, err)
	}
	var before []*grant
	if old := k.grants.Load(); old != nil {
		before = *old
	}
	unchanged := make(map[string]*grant, len(before)) // by their lines
	for _, g := range before {
		unchanged[g.line] = g
	}
	for i, g := range next {
		if same := unchanged[g.line]; same != nil {
			next[i] = same
			delete(unchanged, g.line)
		}
	}
	k.grants.Store(&next)
	for _, g := range unchanged {
		g.revoke()
	}
	return nil
}

// parseTokens reads lines of NAME TOKEN RIGHTS TOPICS. The error is a
// notify.ErrInvalid that reports each fault with its line, or the first of very many.
func parseTokens(data []byte) ([]*grant, error) {
	var all []*grant
	faults := &multierror.Error{ErrorFormat: func(errs []error) string {
		texts := make([]string, len(errs))
		for i, err := range errs {
			texts[i] = err.Error()
		}
		return strings.Join(texts, "\n")
	}}
	names, hashes := make(map[string]int), make(map[[sha256.Size]byte]int) // numbers of their lines
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		g, err := parseGrant(line)
		if err == nil {
			err = g.unique(names[g.name], hashes[g.hash])
		}
		if err != nil {
			faults = multierror.Append(faults, fmt.Errorf("line %d: %w", number, err))
			if faults.Len() == maxFaults {
				faults = multierror.Append(faults, fmt.Errorf("the lines after line %d were not read", number))
				break
			}
			continue
		}
		names[g.name], hashes[g.hash] = number, number
		all = append(all, g)
	}
	if len(all) == 0 && faults.Len() == 0 {
		return nil, fault.New("tokens", "tokens: there is none; write lines of NAME TOKEN RIGHTS TOPICS")
	}
	return all, faults.ErrorOrNil()
}

const (
	minToken   = 16 // bytes of a token: 22 random letters are 128 bits
	hashPrefix = "sha256:"
)

var tokenGrammar = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`) // b64token of RFC 6750

var (
	nameGrammar = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)
	hexDigits   = regexp.MustCompile(`^[0-9A-Fa-f]{16,}$`)
)

// parseGrant reads a line. Errors repeat no word of it except a name too short for a
// token: if the words are mixed up, any of them may be the token.
func parseGrant(line string) (*grant, error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return nil, fault.New("line", "line: %d words; write NAME TOKEN RIGHTS TOPICS, such as: shop TOKEN publish,listen order.>", len(fields))
	}
	g := &grant{name: fields[0], line: line, memory: newMemory()}
	g.valid, g.revoke = context.WithCancel(context.Background())
	if !nameGrammar.MatchString(g.name) || hexDigits.MatchString(g.name) { // a token of openssl rand -hex in the wrong place
		return nil, fault.New("name", "name: use up to 32 letters, digits and . _ -, beginning with a letter or digit, and not 16 hexadecimal digits or more; write NAME TOKEN RIGHTS TOPICS in this order")
	}
	if err := g.setToken(fields[1]); err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(fields[2], ",") {
		if !slices.Contains(allRights, right(name)) {
			return nil, fault.New("rights", "rights%s: use %s, separated by commas", g.called(), listRights(allRights, ", "))
		}
		g.rights = append(g.rights, right(name))
	}
	for i, text := range strings.Split(fields[3], ",") {
		p, err := notify.ParsePattern(text)
		if err != nil {
			return nil, fault.New("topics", "topics%s, number %d: write topics, or patterns such as order.* or order.>, separated by commas", g.called(), i+1)
		}
		g.patterns = append(g.patterns, p)
	}
	return g, nil
}

// setToken reads a token, or its hash.
func (g *grant) setToken(text string) error {
	if sum, hashed := strings.CutPrefix(text, hashPrefix); hashed {
		raw, err := hex.DecodeString(sum)
		if err != nil || len(raw) != sha256.Size {
			return fault.New("token", "token%s: write the hash of the token after sha256: as 64 digits, as sha256sum does", g.called())
		}
		g.hash = [sha256.Size]byte(raw)
		return nil
	}
	switch {
	case len(text) < minToken:
		return fault.New("token", "token%s: it is shorter than %d bytes; make one with openssl rand -hex 32", g.called(), minToken)
	case !tokenGrammar.MatchString(text):
		return fault.New("token", "token%s: use letters, digits and - . _ ~ + /, with = at the end; make one with openssl rand -hex 32", g.called())
	}
	g.hash = sha256.Sum256([]byte(text))
	return nil
}

// called returns the name for an error, unless the name may be a token.
func (g *grant) called() string {
	if len(g.name) < minToken {
		return " of " + g.name
	}
	return ""
}

// unique reports a repeated name or token, by the line that has it already; zero: no line has it.
func (g *grant) unique(name, token int) error {
	switch {
	case name > 0:
		return fault.New("name", "name: line %d has the same; give each token a name of its own", name)
	case token > 0:
		return fault.New("token", "token%s: line %d has the same; give each name a token of its own", g.called(), token)
	}
	return nil
}

// admit returns the grant of a request's token. It compares the token with every known
// one, in constant time. Errors: errUnauthorized and errUnknownToken.
func (k *keys) admit(r *http.Request) (*grant, error) {
	all := k.grants.Load()
	if all == nil {
		return k.all, nil
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return nil, errUnauthorized
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, errUnauthorized
	}
	hash := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
	var found *grant
	for _, g := range *all {
		if subtle.ConstantTimeCompare(hash[:], g.hash[:]) == 1 {
			found = g
		}
	}
	if found == nil {
		return nil, errUnknownToken
	}
	return found, nil
}
