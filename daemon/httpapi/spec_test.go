package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A spec is the OpenAPI document, read from its JSON alone, as other programs do.
type spec struct {
	raw    []byte
	ops    []specOp
	shared map[string]specResponse

	mu       sync.Mutex
	compiler *jsonschema.Compiler
}

type specOp struct {
	method, path string
	pointer      string         // to it within the document
	match        *regexp.Regexp // of its path
	OperationID  string         `json:"operationId"`
	Tags         []string       `json:"tags"`
	Summary      string         `json:"summary"`
	Description  string         `json:"description"`
	Parameters   []specParam    `json:"parameters"`
	RequestBody  *struct {
		Content map[string]any `json:"content"`
	} `json:"requestBody"`
	Responses map[string]specResponse `json:"responses"`
}

type specParam struct {
	Name, In, Description string
	Required              bool
	Schema                specSchema
}

type specSchema struct {
	Type, Format, Pattern string
	Enum                  []string
	Minimum, Maximum      *json.Number
	MinLength, MaxLength  int
	Examples              []any
	Shortest              string `json:"x-shortest"`
	Longest               string `json:"x-longest"`
	Without               string `json:"x-without"`
}

type specResponse struct {
	Ref     string         `json:"$ref"`
	Content map[string]any `json:"content"`
}

// readSpec reads the document that a gateway serves.
func readSpec(t testing.TB) *spec {
	t.Helper()
	gate, err := httpapi.New(storetest.Open(t), httpapi.Options{})
	storetest.Must(t, err)
	w := newAnswer()
	r, _ := http.NewRequest("GET", "/v1/openapi.json", nil)
	gate.Handler().ServeHTTP(w, r)
	s := &spec{raw: w.Body.Bytes()}
	var doc struct {
		Paths      map[string]map[string]specOp
		Components struct{ Responses map[string]specResponse }
	}
	if err := json.Unmarshal(s.raw, &doc); err != nil {
		t.Fatalf("status %d: %v", w.Code, err)
	}
	s.shared = doc.Components.Responses
	for path, item := range doc.Paths {
		for method, op := range item {
			op.method, op.path = strings.ToUpper(method), path
			op.pointer = pointer("paths", path, method)
			op.match = regexp.MustCompile("^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
			s.ops = append(s.ops, op)
		}
	}
	slices.SortFunc(s.ops, func(a, b specOp) int { return strings.Compare(a.OperationID, b.OperationID) })
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.raw))
	storetest.Must(t, err)
	s.compiler = jsonschema.NewCompiler()
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	s.compiler.AssertContent()
	storetest.Must(t, s.compiler.AddResource(specURL, value))
	return s
}

// served is the document that tests share, since to read it takes longer than most of them.
var served struct {
	sync.Mutex
	spec *spec
}

// sharedSpec is readSpec, once for all tests.
func sharedSpec(t testing.TB) *spec {
	t.Helper()
	served.Lock()
	defer served.Unlock()
	if served.spec == nil {
		served.spec = readSpec(t)
	}
	return served.spec
}

const specURL = "http://bellhop.test/openapi.json"

// pointer returns a JSON pointer as the fragment of an address.
func pointer(tokens ...string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteString("/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(token)))
	}
	return b.String()
}

// valid reports faults of a value by the schema at a pointer.
func (s *spec) valid(pointer string, value any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	schema, err := s.compiler.Compile(specURL + "#" + pointer)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// op returns the operation of a request; nil if there is none.
func (s *spec) op(r *http.Request) *specOp {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if path.Clean(r.URL.EscapedPath()) != r.URL.EscapedPath() {
		return nil
	}
	for i := range s.ops {
		if op := &s.ops[i]; op.method == method && op.match.MatchString(r.URL.EscapedPath()) {
			return op
		}
	}
	return nil
}

// check reports what the document does not permit of an answer. The body is
// all of it; nil for a stream.
func (s *spec) check(r *http.Request, status int, header http.Header, body []byte) error {
	op := s.op(r)
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if op == nil {
		if status < 400 {
			return fmt.Errorf("no operation has this address, but it answers %d", status)
		}
		return s.content(pointer("components", "responses", "Invalid"), s.shared["Invalid"], r, kind, body)
	}
	if status < 400 {
		if err := s.request(op, r); err != nil {
			return fmt.Errorf("%s answers %d: %w", op.OperationID, status, err)
		}
	}
	code := strconv.Itoa(status)
	response, ok := op.Responses[code]
	at := op.pointer + pointer("responses", code)
	if name, shared := strings.CutPrefix(response.Ref, "#/components/responses/"); shared {
		response, at = s.shared[name], pointer("components", "responses", name)
	}
	if !ok {
		return fmt.Errorf("%s may not answer %d: %s", op.OperationID, status, body)
	}
	return s.content(at, response, r, kind, body)
}

// content reports faults of a body.
func (s *spec) content(at string, response specResponse, r *http.Request, kind string, body []byte) error {
	_, any := response.Content["*/*"]
	switch _, ok := response.Content[kind]; {
	case any && r.URL.Query().Has("as"):
		return nil
	case len(response.Content) == 0 && len(body) == 0:
		return nil
	case !ok:
		return fmt.Errorf("a body of type %q, want one of %v: %s", kind, response.Content, body)
	case r.Method == http.MethodHead, body == nil && kind == "text/event-stream":
		return nil
	}
	at += pointer("content", kind)
	if kind == "application/x-ndjson" {
		for line := range bytes.Lines(body) {
			if err := s.json(at+"/x-itemSchema", line); err != nil {
				return err
			}
		}
		return nil
	}
	return s.json(at+"/schema", body)
}

func (s *spec) json(at string, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = s.valid(at, value)
	}
	if err != nil {
		return fmt.Errorf("%w in %s", err, text)
	}
	return nil
}

// request reports which parameter of an accepted request the document would refuse.
func (s *spec) request(op *specOp, r *http.Request) error {
	query := r.URL.Query()
	for i, p := range op.Parameters {
		if p.In != "query" || !query.Has(p.Name) {
			continue
		}
		var value any = query.Get(p.Name)
		switch p.Schema.Type {
		case "integer":
			value = json.Number(query.Get(p.Name))
		case "boolean":
			value = query.Get(p.Name) == "true"
		}
		if err := s.valid(op.pointer+pointer("parameters", strconv.Itoa(i), "schema"), value); err != nil {
			return fmt.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return nil
}

// checked is a client's transport that checks every answer by the document.
type checked struct {
	t    testing.TB
	spec *spec
	next http.RoundTripper
}

func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if plain := r.URL.Path == "/v1/openapi.json" || !strings.HasPrefix(r.URL.Path, "/v1"); plain || r.Method == http.MethodOptions {
		return resp, nil
	}
	if err := c.spec.check(r, resp.StatusCode, resp.Header, body); err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
		c.t.Errorf("%s %s: 503 without Retry-After", r.Method, r.URL)
	}
	return resp, nil
}
