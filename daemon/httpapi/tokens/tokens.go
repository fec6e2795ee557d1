// Package tokens reads the file of the clients of HTTP and their rights, and says what each may do.
package tokens

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"

	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi/guard"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/regular"
	"github.com/bellhopd/bellhop/notify/store/fault"
)

// Errors of a request without a known token.
var (
	ErrMissing = errors.New("a bearer token is required; send Authorization: Bearer TOKEN")
	ErrUnknown = errors.New("the bearer token is unknown")
)

// A Grant is what one line of the tokens file permits.
type Grant struct {
	calls.Client
	Valid context.Context // ends when a reload revokes the grant

	// What its clients have in use.
	Memory  *guard.Memory
	Streams atomic.Int64
	Pages   atomic.Int64 // of the console

	hash   [sha256.Size]byte // hash of the token
	line   string            // the line as written in the file
	revoke func()
}

// grantAll returns the grant of every caller if there is no tokens file.
func grantAll() *Grant {
	return &Grant{Client: calls.Anybody("anybody"), Valid: context.Background(), Memory: guard.NewMemory()}
}

// Fingerprint returns the hash of the token as text.
func (g *Grant) Fingerprint() string { return hex.EncodeToString(g.hash[:]) }

// Keys are the accepted tokens. Without a file everybody may do everything.
type Keys struct {
	file   string
	all    *Grant // that of every caller if there is no file
	grants atomic.Pointer[[]*Grant]

	mu sync.Mutex // held while the file is read
}

// New returns the tokens of a file, which is not read yet; empty: there is none.
func New(file string) *Keys { return &Keys{file: file, all: grantAll()} }

// Anybody returns the grant of every caller where there is no file.
func (k *Keys) Anybody() *Grant { return k.all }

// Named returns the grant of a name; nil if there is none, or no file.
func (k *Keys) Named(name string) *Grant {
	if all := k.grants.Load(); all != nil {
		for _, g := range *all {
			if g.Name == name {
				return g
			}
		}
	}
	return nil
}

// Load reads the tokens file. If the file has faults, the error reports all of them, and nothing changes.
func (k *Keys) Load() error {
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
	var before []*Grant
	if old := k.grants.Load(); old != nil {
		before = *old
	}
	unchanged := make(map[string]*Grant, len(before)) // by their lines
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
func parseTokens(data []byte) ([]*Grant, error) {
	var all []*Grant
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
			err = g.unique(names[g.Name], hashes[g.hash])
		}
		if err != nil {
			faults = multierror.Append(faults, fmt.Errorf("line %d: %w", number, err))
			if faults.Len() == mostFaults {
				faults = multierror.Append(faults, fmt.Errorf("the lines after line %d were not read", number))
				break
			}
			continue
		}
		names[g.Name], hashes[g.hash] = number, number
		all = append(all, g)
	}
	if len(all) == 0 && faults.Len() == 0 {
		return nil, fault.New("tokens", "tokens: there is none; write lines of NAME TOKEN RIGHTS TOPICS")
	}
	return all, faults.ErrorOrNil()
}

const (
	mostFaults = 20 // of a file that are reported
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
func parseGrant(line string) (*Grant, error) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return nil, fault.New("line", "line: %d words; write NAME TOKEN RIGHTS TOPICS, such as: shop TOKEN publish,listen order.>", len(fields))
	}
	g := &Grant{line: line, Memory: guard.NewMemory()}
	g.Name, g.Searches = fields[0], new(calls.Searches)
	g.Valid, g.revoke = context.WithCancel(context.Background())
	if !nameGrammar.MatchString(g.Name) || hexDigits.MatchString(g.Name) { // a token of openssl rand -hex in the wrong place
		return nil, fault.New("name", "name: use up to 32 letters, digits and . _ -, beginning with a letter or digit, and not 16 hexadecimal digits or more; write NAME TOKEN RIGHTS TOPICS in this order")
	}
	if err := g.setToken(fields[1]); err != nil {
		return nil, err
	}
	for name := range strings.SplitSeq(fields[2], ",") {
		if !slices.Contains(calls.AllRights, calls.Right(name)) {
			return nil, fault.New("rights", "rights%s: use %s, separated by commas", g.called(), calls.ListRights(calls.AllRights, ", "))
		}
		g.Rights = append(g.Rights, calls.Right(name))
	}
	for i, text := range strings.Split(fields[3], ",") {
		p, err := notify.ParsePattern(text)
		if err != nil {
			return nil, fault.New("topics", "topics%s, number %d: write topics, or patterns such as order.* or order.>, separated by commas", g.called(), i+1)
		}
		g.Patterns = append(g.Patterns, p)
	}
	return g, nil
}

// setToken reads a token, or its hash.
func (g *Grant) setToken(text string) error {
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
func (g *Grant) called() string {
	if len(g.Name) < minToken {
		return " of " + g.Name
	}
	return ""
}

// unique reports a repeated name or token, by the line that has it already; zero: no line has it.
func (g *Grant) unique(name, token int) error {
	switch {
	case name > 0:
		return fault.New("name", "name: line %d has the same; give each token a name of its own", name)
	case token > 0:
		return fault.New("token", "token%s: line %d has the same; give each name a token of its own", g.called(), token)
	}
	return nil
}

// Admit returns the grant of a request's token. It compares the token with every known
// one, in constant time. Errors: ErrMissing and ErrUnknown.
func (k *Keys) Admit(r *http.Request) (*Grant, error) {
	all := k.grants.Load()
	if all == nil {
		return k.all, nil
	}
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return nil, ErrMissing
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, ErrMissing
	}
	hash := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
	var found *Grant
	for _, g := range *all {
		if subtle.ConstantTimeCompare(hash[:], g.hash[:]) == 1 {
			found = g
		}
	}
	if found == nil {
		return nil, ErrUnknown
	}
	return found, nil
}
