package httpapi

import (
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/asked"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fields"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/subscribers"
)

// newDocument returns the OpenAPI document without its operations.
func newDocument(version string) *huma.OpenAPI {
	if version == "" {
		version = "unknown"
	}
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	text := reflect.TypeFor[string]()
	for _, of := range []reflect.Type{reflect.TypeFor[notify.Fail](), reflect.TypeFor[notify.Late](), reflect.TypeFor[notify.Outcome]()} {
		schemas.RegisterTypeAlias(of, text)
	}
	schemas.RegisterTypeAlias(reflect.TypeFor[notify.State](), text)
	schemas.RegisterTypeAlias(reflect.TypeFor[notify.SettingsChange](), reflect.TypeFor[settingsChange]())
	schemas.RegisterTypeAlias(reflect.TypeFor[calls.SchedulePut](), reflect.TypeFor[schedulePut]())
	schemas.RegisterTypeAlias(reflect.TypeFor[calls.NamedSchedule](), reflect.TypeFor[namedSchedule]())
	schemas.RegisterTypeAlias(reflect.TypeFor[calls.PushRequest](), reflect.TypeFor[pushRequest]())
	schemas.RegisterTypeAlias(reflect.TypeFor[notify.Position](), text)
	schemas.RegisterTypeAlias(reflect.TypeFor[subscribers.Receipt](), reflect.TypeFor[int64]())
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:       "Bellhop",
			Version:     version,
			Description: "Delayed and broadcast notifications. Durations are written like 500ms, 90s, 1h30m or 1d. Answers have them in whole milliseconds, in fields whose names end in _ms. Times are in the format of RFC 3339.",
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: "/"}},
		Components: &huma.Components{
			Schemas:         schemas,
			Responses:       failures(schemas),
			SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "A line of the daemon's tokens file. Without such a file everybody may do everything."}},
		},
		Tags: []*huma.Tag{
			{Name: calls.TagPublish, Description: "Messages for one worker, broadcasts for everyone who listens."},
			{Name: calls.TagConsume, Description: "Claim messages, then acknowledge each, reject it, or extend its lease."},
			{Name: calls.TagListen, Description: "Receive broadcasts."},
			{Name: calls.TagOperate, Description: "Count messages, pause and resume topics, and deal with dead letters."},
			{Name: calls.TagArchive, Description: "Search what ended in the archive, a database; publish it again, or remove it. Without an archive these calls answer 404."},
			{Name: calls.TagOutbox, Description: "What transactions of a database published, and was not relayed yet, or was refused. Without an outbox these calls answer 404."},
		},
		Security: []map[string][]string{{}, {"token": {}}},
	}
}

// document adds a call.
func document(doc *huma.OpenAPI, op calls.Call) {
	schemas := doc.Components.Schemas
	o := &huma.Operation{
		Method: op.Method, Path: op.Path, OperationID: op.Name, Summary: op.Summary, Tags: []string{op.Tag},
		Description: strings.TrimSpace(op.Description + " " + needs(op)),
		Responses:   map[string]*huma.Response{},
	}
	for _, p := range op.Params() {
		field := op.Input.FieldByIndex(p.Index)
		if field.Type == reflect.TypeFor[time.Duration]() || field.Type == reflect.TypeFor[*time.Duration]() {
			field.Type = reflect.TypeFor[string]() // 90s, 1h30m
		}
		isMoment := field.Type == reflect.TypeFor[fields.Moment]()
		if isMoment {
			field.Type = reflect.TypeFor[string]()
		}
		described := documentParam(p, huma.SchemaFromField(schemas, field, ""), field)
		if isMoment {
			described.Schema.Pattern = momentGrammar
		}
		o.Parameters = append(o.Parameters, described)
	}
	if op.Request != nil || op.RequestType != "" {
		o.RequestBody = &huma.RequestBody{Required: op.RequestType != "*/*", Content: content(schemas, op.Request, op.RequestType)}
	}
	if op.RequestType == calls.MergePatch { // clients may send it as plain JSON
		o.RequestBody.Content["application/json"] = o.RequestBody.Content[calls.MergePatch]
	}
	success := &huma.Response{Description: http.StatusText(op.Status)}
	o.Responses[strconv.Itoa(op.Status)] = success
	if op.Also != "" {
		o.Responses["200"] = &huma.Response{Description: op.Also}
	}
	for status, response := range o.Responses {
		if op.Reply != nil && status != "204" {
			response.Content = content(schemas, op.Reply, op.ReplyType)
		}
	}
	if op.Raw {
		documentRaw(o)
	}
	failures := append([]int{400, 401, 403, 405, 408, 422, 500, 503}, op.Errors...)
	for _, status := range failures {
		o.Responses[strconv.Itoa(status)] = &huma.Response{Ref: failureRef + failureNames[status]}
	}
	doc.AddOperation(o)
}

// needs says which rights a token must have for an operation.
func needs(op calls.Call) string {
	if len(op.Rights) == 0 {
		return "If the daemon has tokens, any of them will do."
	}
	rights := calls.ListRights(op.Rights, " or ")
	if len(op.And) > 0 {
		rights += ", and with " + calls.ListRights(op.And, " or ") + ","
	}
	return "If the daemon has tokens, one with the right " + rights + " is needed."
}

// durationGrammar is that of notify.ParseDuration. The format duration of JSON
// Schema is another one, PT1H30M.
const durationGrammar = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)d(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$`

// momentGrammar is that of a fields.Moment: a time with an offset, or a duration.
const momentGrammar = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$|` + durationGrammar

// documentParam describes a parameter, and adds what a schema's tags cannot say.
func documentParam(p calls.Param, schema *huma.Schema, field reflect.StructField) *huma.Param {
	schema.Extensions = map[string]any{}
	for _, limit := range []string{"shortest", "longest"} { // of a duration: minimum and maximum are for numbers
		if text := field.Tag.Get(limit); text != "" {
			schema.Extensions["x-"+limit] = text
			schema.Description += "; " + limit + ": " + text
		}
	}
	if p.Without != "" {
		schema.Extensions["x-without"] = p.Without
	}
	if _, short := schema.Extensions["x-shortest"]; short {
		schema.Pattern = durationGrammar
	}
	if p.Zone != "" { // date-time has an offset
		schema.Format, schema.Pattern = "", fields.LocalPattern
	}
	if schema.Type == huma.TypeString && schema.Enum == nil && p.In != "header" {
		schema.MinLength = new(1)
	}
	return &huma.Param{Name: p.Name, In: p.In, Required: p.Required, Description: schema.Description, Schema: schema}
}

// settingsChange, pushRequest, schedulePut and namedSchedule describe the JSON of bodies by the tags of what they are read into.
type (
	settingsChange struct{}
	pushRequest    struct{}
	schedulePut    struct{}
	namedSchedule  struct{}
)

// Schema makes a schema of the fields of notify.SettingsChange.
func (settingsChange) Schema(schemas huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, MinProperties: new(1), Properties: described[notify.SettingsChange](schemas)}
}

// Schema makes a schema of the fields of store.Push.
func (pushRequest) Schema(schemas huma.Registry) *huma.Schema {
	return named(schemas, "PushRequest", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Required: []string{"topics"}, Properties: described[store.Push](schemas)})
}

// Schema makes a schema of the fields of store.Schedule, and of the message of each occurrence.
func (schedulePut) Schema(schemas huma.Registry) *huma.Schema {
	all := described[store.Schedule](schemas)
	line := schemas.SchemaFromRef(schemas.Schema(reflect.TypeFor[notify.Line](), true, "").Ref)
	of := described[notify.Message](schemas)
	for _, name := range calls.OfOccurrence() {
		if all[name] = of[name]; all[name] == nil {
			all[name] = line.Properties[name]
		}
	}
	return named(schemas, "SchedulePut", &huma.Schema{Type: huma.TypeObject, AdditionalProperties: false, Properties: all})
}

// Schema makes a schema of a schedulePut with its name.
func (namedSchedule) Schema(schemas huma.Registry) *huma.Schema {
	put := *schemas.SchemaFromRef(schedulePut{}.Schema(schemas).Ref)
	put.Properties, put.Required = maps.Clone(put.Properties), []string{"name"}
	put.Properties["name"] = &huma.Schema{Type: huma.TypeString, Examples: []any{"daily"}}
	return named(schemas, "NamedSchedule", &put)
}

// named puts a schema among those that have a name, and returns a reference to it.
func named(schemas huma.Registry, name string, schema *huma.Schema) *huma.Schema {
	schemas.Map()[name] = schema
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// described returns the schemas of the fields of T that have a name.
func described[T any](schemas huma.Registry) map[string]*huma.Schema {
	all := make(map[string]*huma.Schema)
	for _, f := range fields.In[T]() {
		field := reflect.TypeFor[T]().FieldByIndex(f.Index)
		switch field.Type {
		case reflect.TypeFor[time.Duration]():
			field.Type = reflect.TypeFor[string]()
		case reflect.TypeFor[*time.Duration](), reflect.TypeFor[*record.Rate]():
			field.Type = reflect.TypeFor[*string]()
		}
		all[f.Name] = documentParam(calls.Param{Field: f, In: "body"}, huma.SchemaFromField(schemas, field, ""), field).Schema
	}
	return all
}

const failureRef = "#/components/responses/"

// failureNames are the names of the responses to failed requests, by status.
var failureNames = map[int]string{
	400: "BodyCut", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "Method", 408: "BodySlow",
	409: "Conflict", 410: "Gone", 413: "TooLarge", 422: "Invalid", 429: "TooMany", 500: "Internal", 503: "Unavailable",
}

// failures describes each response to a failed request once.
func failures(schemas huma.Registry) map[string]*huma.Response {
	all := make(map[string]*huma.Response)
	for status, text := range map[int]string{
		400: "The body ended early, or is malformed.",
		401: "The request has no known token. WWW-Authenticate says how to send one.",
		403: "The token does not permit it, or the origin of a web page is not allowed, or the daemon has no tokens and the Host is not a name of its machine.",
		404: "There is no such message, push or schedule, or refused row; or the daemon has no archive (type urn:bellhop:no-archive), no outbox (no-outbox), pushes to no URL (push-off), has no NATS (no-nats) or no clock that can be moved (no-clock).",
		405: "The method is not allowed here. Allow lists those that are.",
		408: "The body did not come in time.",
		409: "The state of the message does not permit it. type says which: its id is in use (exists), it is leased, it is dead, the lease is lost (lease-lost), or, of an extension, it is to be cancelled (stop): end the work, and reject it by the end of the lease, which goes on as it is. Of a publish outcome is refused. Of an advance: another one is under way (advancing), or something is in hand still (not-quiet).",
		410: "The message ended while it was waited for, and nothing is kept of it: whether it succeeded is not known. A worker that acknowledges with keep makes that known.",
		413: "The body is too large.",
		422: "Some parameters are wrong: errors names each, and detail says what would be right. Nothing was changed.",
		500: "An error of the daemon. Please report it.",
		429: "The token has too many streams open, or searches of bodies under way. Send the request again after Retry-After seconds.",
		503: "Redis cannot be reached or is full (type urn:bellhop:full, for publishes only), the archive or the outbox cannot answer (type urn:bellhop:archive or urn:bellhop:outbox), the token has too many large requests under way, or the daemon is stopping. Of type urn:bellhop:unreplicated alone the change was made, but too few replicas confirmed it. Send the request again after Retry-After seconds.",
	} {
		all[failureNames[status]] = &huma.Response{Description: text, Content: content(schemas, api.Problem{}, problemType), Headers: failureHeaders[status]}
	}
	return all
}

// failureHeaders are the headers of responses to failed requests, by status.
var failureHeaders = map[int]map[string]*huma.Param{
	401: {"WWW-Authenticate": {Description: "how to send a token", Schema: &huma.Schema{Type: huma.TypeString}}},
	405: {"Allow": {Description: "methods, joined by commas", Schema: &huma.Schema{Type: huma.TypeString}}},
	429: {"Retry-After": {Description: "seconds", Schema: &huma.Schema{Type: huma.TypeInteger}}},
	503: {"Retry-After": {Description: "seconds", Schema: &huma.Schema{Type: huma.TypeInteger}}},
}

// content describes a body: a value of a type in JSON, or bytes.
func content(schemas huma.Registry, value any, kind string) map[string]*huma.MediaType {
	if kind == "" {
		kind = "application/json"
	}
	schema := &huma.Schema{Type: "string", Format: "binary"}
	if value != nil {
		schema = schemas.Schema(reflect.TypeOf(value), true, "")
	}
	media := &huma.MediaType{Schema: schema}
	if kind == ndjson || kind == eventStream { // OpenAPI 3.1 cannot describe it; 3.2 has itemSchema
		media.Extensions = map[string]any{"x-itemSchema": schema}
		media.Schema = &huma.Schema{Type: "string", Description: "A sequence, each element as " + schema.Ref + " describes it."}
	}
	return map[string]*huma.MediaType{kind: media}
}

// documentRaw describes the answers of a claim with as=body.
func documentRaw(o *huma.Operation) {
	text, number := &huma.Schema{Type: huma.TypeString}, &huma.Schema{Type: huma.TypeInteger}
	success := o.Responses["200"]
	success.Description = "Messages; with as=body the body of one message as it is, with its own content type."
	success.Content["*/*"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	success.Headers = map[string]*huma.Param{
		"Bellhop-Topic":     {Description: "with as=body", Schema: text},
		"Bellhop-Id":        {Description: "with as=body", Schema: text},
		"Bellhop-Receipt":   {Description: "with as=body: acknowledges the message, or otherwise settles it; missing with ack=now", Schema: number},
		"Bellhop-Attempt":   {Description: "with as=body: 1 on first delivery", Schema: number},
		"Bellhop-Late-Ms":   {Description: "with as=body: from due to claimed, less the min_age of the claim", Schema: number},
		"Bellhop-Due":       {Description: "with as=body: due time of this attempt", Schema: text},
		"Bellhop-First-Due": {Description: "with as=body: due time of the first attempt", Schema: text},
		"Bellhop-Published": {Description: "with as=body. Each header of the message follows as Bellhop-Header-NAME", Schema: text},
	}
	for _, one := range asked.Describe() {
		success.Headers[one.Header()] = &huma.Param{Description: "with as=body: " + one.Text, Schema: text}
	}
	o.Responses["204"] = &huma.Response{Description: "With as=body: no message came, not even within the wait."}
}
