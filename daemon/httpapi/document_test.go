package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The document is the same each time it is served, by every daemon.
func TestDocumentIsStable(t *testing.T) {
	t.Parallel()
	first := readSpec(t).raw
	for range 5 {
		if !bytes.Equal(first, readSpec(t).raw) {
			t.Fatal("it differs each time")
		}
	}
	s := start(t, httpapi.Options{Version: "1.2.3"})
	s.call("GET", "/v1/openapi.json", "").is(200).says(`"version":"1.2.3"`)
}

// The document has what people and generators need.
func TestDocumentIsComplete(t *testing.T) {
	t.Parallel()
	s := readSpec(t)
	if len(s.ops) < 23 {
		t.Errorf("%d operations", len(s.ops))
	}
	ids := map[string]bool{}
	for _, op := range s.ops {
		if op.OperationID == "" || ids[op.OperationID] || op.Summary == "" || op.Description == "" || len(op.Tags) != 1 {
			t.Errorf("%s %s: its id, summary, description and tag are %q, %q, %q, %q", op.method, op.path, op.OperationID, op.Summary, op.Description, op.Tags)
		}
		ids[op.OperationID] = true
		for _, code := range []string{"400", "401", "403", "405", "408", "422", "500", "503"} {
			if op.Responses[code].Ref == "" {
				t.Errorf("%s does not describe %s", op.OperationID, code)
			}
		}
		for i, p := range op.Parameters {
			if p.Description == "" || p.In == "path" && !p.Required {
				t.Errorf("%s: parameter %s: %+v", op.OperationID, p.Name, p)
			}
			if p.Schema.Type == "string" && p.In != "header" && len(p.Schema.Enum) == 0 && p.Schema.Pattern == "" && p.Schema.Format == "" && p.Schema.MaxLength == 0 && p.Schema.MinLength == 0 {
				t.Errorf("%s: parameter %s may be any text", op.OperationID, p.Name)
			}
			for _, example := range p.Schema.Examples {
				if err := s.valid(op.pointer+pointer("parameters", strconv.Itoa(i), "schema"), example); err != nil {
					t.Errorf("%s: the example of %s: %v", op.OperationID, p.Name, err)
				}
			}
		}
	}
}

// validator is the script that validates the document by a library that knows nothing of this project.
const validator = `import { readFileSync } from 'node:fs'
import { Validator } from '@seriousme/openapi-schema-validator'
const validator = new Validator()
const result = await validator.validate(JSON.parse(readFileSync(process.argv[2], 'utf8')))
if (!result.valid || validator.version !== '3.1') {
  console.error(validator.version, JSON.stringify(result.errors, null, 1))
  process.exit(1)
}
`

func TestDocumentIsOpenAPI(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("the document is validated with node, and %s is not on PATH; install them, on Debian with: apt-get install nodejs npm", name)
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "package.json"), `{"private":true,"type":"module","dependencies":{"@seriousme/openapi-schema-validator":"2.11.0"}}`)
	write(t, filepath.Join(dir, "validate.mjs"), validator)
	run := func(name string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.WaitDelay = dir, time.Second
		return cmd.CombinedOutput()
	}
	if said, err := run("npm", "install", "--no-audit", "--no-fund", "--no-update-notifier", "--no-package-lock", "--loglevel=error"); err != nil {
		t.Fatalf("npm cannot install the validator: %v\nDoes it reach its registry? It said:\n%s", err, said)
	}
	raw := readSpec(t).raw
	for what, document := range map[string][]byte{"as it is": raw, "broken": bytes.Replace(raw, []byte(`"in":"query"`), []byte(`"in":"cookies"`), 1)} {
		name := filepath.Join(dir, "openapi.json")
		storetest.Must(t, os.WriteFile(name, document, 0o600))
		if said, err := run("node", "validate.mjs", name); (err == nil) != (what == "as it is") {
			t.Errorf("the document %s: %v\n%s", what, err, said)
		}
	}
}

// The checks of this package detect differences between answers and the document.
func TestChecksOfAnswersCanFail(t *testing.T) {
	t.Parallel()
	s := readSpec(t)
	r, err := http.NewRequest("GET", "/v1/topics/orders/messages?limit=1", nil)
	storetest.Must(t, err)
	header := func(kind string) http.Header { return http.Header{"Content-Type": {kind}} }
	page := map[string]any{"messages": []any{}}
	for what, test := range map[string]struct {
		status int
		kind   string
		body   any
		right  bool
	}{
		"right":          {200, "application/json", page, true},
		"another status": {201, "application/json", page, false},
		"another type":   {200, "text/plain", page, false},
		"a field more":   {200, "application/json", map[string]any{"messages": []any{}, "x": 1}, false},
		"a field less":   {200, "application/json", map[string]any{}, false},
		"null":           {200, "application/json", map[string]any{"messages": nil}, false},
		"no problem":     {422, "application/problem+json", page, false},
	} {
		body, err := json.Marshal(test.body)
		storetest.Must(t, err)
		if err := s.check(r, test.status, header(test.kind), body); (err == nil) != test.right {
			t.Errorf("%s: %v", what, err)
		}
	}
	r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "1", "501", 1)
	if s.check(r, 200, header("application/json"), []byte(`{"messages":[]}`)) == nil {
		t.Error("a parameter out of range may be accepted")
	}
}
