package httpapi

import (
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/subscribers"
)

// newDocument returns the OpenAPI document without its operations.
func newDocument(version string) *huma.OpenAPI {
	if version == "" {
		version = "unknown"
	}
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	text := reflect.TypeFor[string]()
	schemas.RegisterTypeAlias(reflect.TypeFor[notify.State](), text)
	schemas.RegisterTypeAlias(reflect.TypeFor[notify.Position](), text)
	schemas.RegisterTypeAlias(reflect.TypeFor[subscribers.Receipt](), reflect.TypeFor[int64]())
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title:       "Bellhop",
			Version:     version,
			Description: "Delayed and broadcast notifications. Durations are written like 500ms, 90s or 1h30m, times as RFC 3339 has them.",
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: "/"}},
		Components: &huma.Components{
			Schemas:         schemas,
			SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}},
		},
		Security: []map[string][]string{{}, {"token": {}}},
	}
}

// document adds an operation. Its parameters are the fields of the input.
func document(doc *huma.OpenAPI, op operation, input reflect.Type) {
	schemas := doc.Components.Schemas
	o := &huma.Operation{
		Method: op.method, Path: op.path, OperationID: op.id, Summary: op.summary, Description: op.description,
		Responses: map[string]*huma.Response{},
	}
	for _, p := range paramsOf(input) {
		field := input.FieldByIndex(p.index)
		if field.Type == reflect.TypeFor[time.Duration]() {
			field.Type = reflect.TypeFor[string]() // 90s, 1h30m
		}
		schema := huma.SchemaFromField(schemas, field, "")
		o.Parameters = append(o.Parameters, &huma.Param{
			Name: p.name, In: p.in, Required: p.required, Description: schema.Description, Schema: schema,
		})
	}
	if op.request != nil || op.requestType != "" {
		o.RequestBody = &huma.RequestBody{Required: true, Content: content(schemas, op.request, op.requestType)}
	}
	success := &huma.Response{Description: http.StatusText(op.status)}
	if op.reply != nil {
		success.Content = content(schemas, op.reply, op.replyType)
	}
	o.Responses[strconv.Itoa(op.status)] = success
	failures := append([]int{401, 403, 422, 503}, op.errors...)
	for _, status := range failures {
		o.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status), Content: content(schemas, api.Problem{}, problemType),
		}
	}
	o.Responses["default"] = &huma.Response{Description: "Any other failure", Content: content(schemas, api.Problem{}, problemType)}
	doc.AddOperation(o)
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
	if kind == ndjson || kind == eventStream { // for which OpenAPI 3.1 has no words
		schema = &huma.Schema{Type: "string", Description: "One after the other, each as " + schema.Ref + " describes it."}
	}
	return map[string]*huma.MediaType{kind: {Schema: schema}}
}
