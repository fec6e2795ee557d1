package daemon

import (
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/bellhopd/bellhop/daemon/database"
	"github.com/bellhopd/bellhop/daemon/natsgate"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/reach"
)

// URLs are addresses of Redis, separated by commas. Passwords in them are never
// printed or logged.
type URLs string

// String returns the addresses without passwords.
func (u URLs) String() string { return reach.RedactURLs(string(u)) }

// GoString is String, for %#v.
func (u URLs) GoString() string { return strconv.Quote(u.String()) }

// MarshalText is String, for JSON.
func (u URLs) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue is String, for slog.
func (u URLs) LogValue() slog.Value { return slog.StringValue(u.String()) }

// NatsURLs are addresses of NATS, separated by commas. Passwords and tokens in them
// are never printed or logged.
type NatsURLs string

// String returns the addresses without passwords and tokens.
func (u NatsURLs) String() string { return natsgate.RedactURLs(string(u)) }

// GoString is String, for %#v.
func (u NatsURLs) GoString() string { return strconv.Quote(u.String()) }

// MarshalText is String, for JSON.
func (u NatsURLs) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue is String, for slog.
func (u NatsURLs) LogValue() slog.Value { return slog.StringValue(u.String()) }

// DatabaseURL is the address of a database. Passwords in it are never printed or logged.
type DatabaseURL string

// String returns the address without passwords.
func (u DatabaseURL) String() string { return database.Redact(string(u)) }

// GoString is String, for %#v.
func (u DatabaseURL) GoString() string { return strconv.Quote(u.String()) }

// MarshalText is String, for JSON.
func (u DatabaseURL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue is String, for slog.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// DatabaseURLs are addresses of databases, with spaces between. Passwords in them are never printed or logged.
type DatabaseURLs string

// String returns the addresses without passwords.
func (u DatabaseURLs) String() string {
	all := strings.Fields(string(u))
	for i := range all {
		all[i] = database.Redact(all[i])
	}
	return strings.Join(all, " ")
}

// GoString is String, for %#v.
func (u DatabaseURLs) GoString() string { return strconv.Quote(u.String()) }

// MarshalText is String, for JSON.
func (u DatabaseURLs) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue is String, for slog.
func (u DatabaseURLs) LogValue() slog.Value { return slog.StringValue(u.String()) }

// List is a list of words, separated by commas.
type List string

// Words returns them one by one.
func (l List) Words() []string {
	if l == "" {
		return nil
	}
	all := strings.Split(string(l), ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// Keep limits what is kept: how many, and for how long. It is written like
// 100000,24h.
type Keep struct {
	Count int
	Age   time.Duration
}

// Decode reads a count and an age, for envconfig.
func (k *Keep) Decode(text string) error {
	count, age, _ := strings.Cut(text, ",")
	n, errCount := strconv.Atoi(strings.TrimSpace(count))
	d, errAge := fields.ParseDuration("age", strings.TrimSpace(age))
	if errCount != nil || errAge != nil || age == "" {
		return fault.New("keep", "keep %q: %s", text, grammar(*k))
	}
	*k = Keep{n, d}
	return nil
}

// String returns the count and the age.
func (k Keep) String() string { return strconv.Itoa(k.Count) + "," + fault.Short(k.Age) }

// Percent is a share, written like 90%.
type Percent int

// Decode reads a share, for envconfig.
func (p *Percent) Decode(text string) error {
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(text, "%")))
	if err != nil {
		return fault.New("share", "share %q: %s", text, grammar(*p))
	}
	*p = Percent(n)
	return nil
}

// String returns the share with its sign.
func (p Percent) String() string { return strconv.Itoa(int(p)) + "%" }

// Size is a number of bytes, written like 262144, 256KiB or 1MiB.
type Size int

var units = []struct {
	name string
	size Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

// Decode reads a size, for envconfig.
func (s *Size) Decode(text string) error {
	for _, unit := range units {
		number, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 0 || n > math.MaxInt/int(unit.size) {
			return fault.New("size", "size %q: %s", text, grammar(*s))
		}
		*s = Size(n) * unit.size
		return nil
	}
	return nil // not reached: the last unit has no name
}

// String returns the size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range units {
		if s > 0 && s%unit.size == 0 && unit.size > 1 {
			return strconv.Itoa(int(s/unit.size)) + unit.name
		}
	}
	return strconv.Itoa(int(s))
}
