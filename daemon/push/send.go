package push

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

const (
	dialTimeout    = 10 * time.Second
	maxAnswer      = 1 << 10   // bytes of an answer in the reason of a failure
	maxRest        = 256 << 10 // bytes of an answer that are read so that its connection can be used again
	maxHeader      = 64 << 10  // bytes of the header of an answer
	idleFor        = 90 * time.Second
	idleOfEndpoint = 100              // connections that wait for requests to one endpoint
	silence        = 10 * time.Second // after which a connection of HTTP/2 is asked whether it is there
	lostAfter      = 20 * time.Second // without an answer to that
)

// client returns a client that connects to allowed addresses alone, and keeps up to so many connections that no request has.
func client(allow Allow, plain bool, kept int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer(allow, plain).DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    dialTimeout,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: lostAfter}, // else one that was cut is kept until TCP gives up
			IdleConnTimeout:        idleFor,
			MaxIdleConns:           max(kept, 1), // zero would be any number
			MaxIdleConnsPerHost:    idleOfEndpoint,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dialer returns what connects to allowed addresses alone.
func dialer(allow Allow, plain bool) *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, Control: allow.control(plain)}
}

// An Answer is what an endpoint answered to a request.
type Answer struct {
	Status int           // of HTTP
	Text   string        // the beginning of its body, where that is text
	Again  bool          // it says when it wants to be asked again
	Retry  time.Duration // after which it does; 0: at once
	Took   time.Duration
	Broken error // why the answer broke off behind its header; nil: it did not
}

// String returns the status and the text.
func (a Answer) String() string {
	text := "HTTP " + strconv.Itoa(a.Status)
	if name := http.StatusText(a.Status); name != "" {
		text += " " + name
	}
	if a.Text != "" {
		text += ": " + a.Text
	}
	if a.Broken != nil && !a.IsDone() {
		text += fmt.Sprintf(", and its answer breaks off: %v", a.Broken)
	}
	return text
}

// IsDone reports whether an answer acknowledges the message.
func (a Answer) IsDone() bool { return a.Status >= 200 && a.Status < 300 }

// putsOff reports whether an answer wants the message again later.
func (a Answer) putsOff() bool {
	return a.Again && (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable)
}

// isOfMessage reports whether an answer refuses this message for what it is, which says nothing of the next one. 400 does not: that is
// also what all get where a secret is wrong.
func (a Answer) isOfMessage() bool {
	switch a.Status {
	case http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
		return true
	}
	return false
}

// Send sends one message to the endpoint of a push, and returns what that answered. The error says why there is no answer.
func (p *Pusher) Send(ctx context.Context, push *store.Push, d subscribers.Delivery) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, push.Timeout, fmt.Errorf("no answer within %v", push.Timeout))
	defer cancel()
	r, err := p.requestOf(ctx, push, d)
	if err != nil {
		return Answer{}, err
	}
	by := p.secure
	if r.URL.Scheme == "http" {
		by = p.plain
	}
	began := time.Now()
	response, err := by.Do(r)
	if err != nil {
		return Answer{}, because(ctx, r.URL.Host, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil {
		_, err = io.CopyN(io.Discard, response.Body, maxRest)
	}
	a := Answer{Status: response.StatusCode, Text: readable(text), Took: time.Since(began)}
	a.Retry, a.Again = retryAfter(response.Header)
	if err != nil && !errors.Is(err, io.EOF) {
		a.Broken = because(ctx, r.URL.Host, err)
	}
	return a, nil
}

// ofTest makes a topic of a pattern.
var ofTest = strings.NewReplacer("*", "test", ">", "test")

// Test sends a test to where a push leads, and returns what the answer is. Its topic is the first one of the push, with the word test in
// place of each wildcard.
func (p *Pusher) Test(ctx context.Context, push store.Push) api.PushTest {
	now, within := time.Now(), min(cmp.Or(push.Timeout, store.DefaultPushTimeout), store.DefaultPushTimeout)
	d := subscribers.Delivery{
		Topic: ofTest.Replace(push.Topics[0]), ID: "test~" + notify.NewID(), Due: now, Attempt: 1,
		Record: notify.Record{Published: now, ContentType: "application/json", Body: []byte(`{"test":true}`)},
	}
	var answer string
	err := p.Check(&push)
	switch {
	case err != nil:
	case push.IsNATS():
		answer = "+ACK"
		err = p.o.NATS.Deliver(ctx, push.Subject(d.Topic), within, &d)
	default:
		push.Timeout = within
		var a Answer
		if a, err = p.Send(ctx, &push, d); err == nil {
			if answer = a.String(); !a.IsDone() {
				err = errors.New(answer)
			}
		}
	}
	t := api.PushTest{OK: err == nil, Answer: answer, TookMs: api.Ms(time.Since(now))}
	if err != nil {
		t.Answer = err.Error()
	}
	return t
}

// because returns why a request to a host failed: the time that was over, or the error without the URL, which may hold a token, and
// without what looking up the host told, which is not for each client.
func because(ctx context.Context, host string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if of, is := errors.AsType[*url.Error](err); is {
		err = of.Err
	}
	var op *net.OpError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		err = &net.DNSError{Err: lookup.Err, Name: lookup.Name, IsTimeout: lookup.IsTimeout, IsTemporary: lookup.IsTemporary, IsNotFound: lookup.IsNotFound}
	case errors.As(err, &op):
		err = fmt.Errorf("%s %s: %w", op.Op, host, op.Err)
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return fmt.Errorf("%w; add that authority to those of the daemon's machine, or name a file with it in SSL_CERT_FILE", err)
	}
	return err
}

// requestOf returns the request for a message.
func (p *Pusher) requestOf(ctx context.Context, push *store.Push, d subscribers.Delivery) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, push.URL, bytes.NewReader(d.Body))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	api.SetHeaders(r.Header, d)
	if d.Receipt == 0 { // how late a broadcast is, is not known
		r.Header.Del("Bellhop-Late-Ms")
	}
	for name, value := range d.Headers { // HTTP keeps a name as Traceparent
		if strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate") {
			r.Header.Set(name, value)
		}
	}
	id := webhookID(d)
	signatures := make([]string, len(push.Secrets))
	for i, secret := range push.Secrets {
		key, err := standardwebhooks.NewWebhook(secret)
		if err == nil {
			signatures[i], err = key.Sign(id, now, d.Body)
		}
		if err != nil {
			return nil, err
		}
	}
	r.Header["Idempotency-Key"] = nil // not sent: has a request be repeated whose kept connection turns out to be closed
	r.Header.Set("User-Agent", "Bellhop/"+p.o.Version)
	r.Header.Set(standardwebhooks.HeaderWebhookID, id)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return r, nil
}

// timeDigits is how many digits the seconds of a time have at least.
const timeDigits = 10

// webhookID returns TOPIC:ID. The dot before a token of digits that could pass for a time is written as %2E, which neither may have: what is
// signed is ID.TIME.BODY, so that else one request could be taken apart as another one, whose id ends there, with another time and body.
func webhookID(d subscribers.Delivery) string {
	tokens := strings.Split(record.Member(d.Topic, d.ID), ".")
	id := tokens[0]
	for _, token := range tokens[1:] {
		dot := "."
		if len(token) >= timeDigits && isDigits(token) {
			dot = "%2E"
		}
		id += dot + token
	}
	return id
}

// readable returns an answer as one line of text; nothing where it is no text.
func readable(data []byte) string {
	text := strings.ToValidUTF8(string(data), "�")
	if strings.Count(text, "�") > len(text)/10 {
		return ""
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
}

// retryAfter reads the header Retry-After: seconds, of which a fraction is rounded up, or a time, which counts from the Date of the answer
// where that has one, and may be past. It is a day at the most.
func retryAfter(h http.Header) (after time.Duration, there bool) {
	text := h.Get("Retry-After")
	if whole, fraction, _ := strings.Cut(text, "."); isDigits(whole) && (fraction == "" || isDigits(fraction)) {
		seconds, _ := strconv.ParseFloat(text, 64) // infinite beyond its range
		return time.Duration(math.Ceil(min(seconds, maxPutOff.Seconds()))) * time.Second, true
	}
	at, err := http.ParseTime(text)
	now, noDate := http.ParseTime(h.Get("Date"))
	if noDate != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), maxPutOff), err == nil
}

// isDigits reports whether a text is one of digits alone.
func isDigits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }
