package control

import (
	"reflect"
	"strings"
	"time"

	"github.com/nvmeof-go/nvmeof/nvmeof/config"
)

// OpenAPI returns the OpenAPI 3.1 description of the API, which is made from the routes and their types.
func OpenAPI() []byte {
	paths := map[string]map[string]any{}
	needed := routeRoles()
	for _, r := range routes() {
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = r.operation(needed[r.id])
	}
	for _, s := range streams() {
		paths[s.path] = map[string]any{"get": s.operation(needed[s.id])}
	}
	return config.JSON(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "nvmeof target", "version": "1", "license": map[string]any{"name": "See LICENSE", "identifier": "LicenseRef-repository"},
			"description": "Control of a running target, over HTTP on a unix socket of mode 0600: curl --unix-socket /run/nvmeof/target.sock http://target/v1/status. With console.listen in the configuration also over TCP, with a token in the header Authorization: Bearer TOKEN, whose role includes the operation's x-role."},
		"servers": []any{map[string]any{"url": "http://target"}},
		"paths":   paths,
		"components": map[string]any{"responses": map[string]any{"error": map[string]any{
			"description": "The error, as the command line prints it, and its kind: 400 invalid, 401 and 429 forbidden (no token, or an unknown one), 403 forbidden (a token whose role does not include it), 404 not-found, 409 exists, restart, loss (data, or its protection, would be lost; requires force=true), in-use (connected hosts would lose what they use; requires force=true), not-empty (a store that was required to be empty has data) or failed (the operating system refused, or the object is not in the required state), 500 failed or unsaved, 503 failed (the target is stopping, or its group of gateways or the storage does not answer). Nothing was changed, except for unsaved: the target was changed, but the file was not.",
			"content":     content(schema(reflect.TypeFor[errorBody]())),
		}}},
	})
}

// roleKey is the key of the role that an operation needs, for callers that do not use the socket.
const roleKey = "x-role"

func content(s any) any {
	return map[string]any{"application/json": map[string]any{"schema": s}}
}

func (r *route) operation(need Role) any {
	var parameters []any
	for _, name := range r.parameters() {
		parameters = append(parameters, map[string]any{"name": name, "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, name := range r.query {
		s := map[string]any{"type": "boolean", "default": false}
		switch name {
		case afterOption:
			s = map[string]any{"type": "integer", "minimum": 0, "default": 0, "description": "Number of the last event that the client has."}
		case uuidOption:
			s = map[string]any{"type": "string", "format": "uuid", "description": "UUID that the namespace must have in the configuration; otherwise it is not found."}
		case emptyOption:
			s["description"] = "Refuse (not-empty) if the file or image exists and has data, for example of an earlier user of the name."
		case withdrawnOption:
			s["description"] = "Refuse (in-use) while a listed host may use the namespace, connected or not, even with force."
		case pathOption:
			s = map[string]any{"type": "string", "pattern": "^/", "description": "Absolute path of a directory."}
		case logOption:
			s = map[string]any{"type": "string", "description": "Log to which the number belongs, from an earlier response. If the target has a different log now, all events are new."}
		case fileOption:
			s = map[string]any{"type": "string", "pattern": "^/", "description": "Absolute path of the file to save to. Default, with save: the one with which the target was started."}
		}
		parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": s})
	}
	op := map[string]any{
		"operationId": r.id, "summary": r.summary, roleKey: need,
		"responses": map[string]any{
			"200":     map[string]any{"description": "Done", "content": content(schema(reflect.TypeOf(r.answer)))},
			"default": map[string]any{"$ref": "#/components/responses/error"},
		},
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if r.body != nil {
		s := config.PartSchema(r.body)
		if r.partial {
			s = map[string]any{"type": "object", "description": "Fields to change; null sets the default: " + reflect.TypeOf(r.body).Name(),
				"properties": config.PartProperties(r.body)}
		}
		op["requestBody"] = map[string]any{"required": true, "content": content(s)}
	}
	return op
}

func (s *stream) operation(need Role) any {
	var parameters []any
	for _, o := range s.query {
		parameters = append(parameters, map[string]any{"name": o.name, "in": "query", "description": o.doc, "schema": map[string]any{"type": o.kind}})
	}
	body := map[string]any{"type": "string", "contentEncoding": "binary"}
	if s.answer != nil {
		body = schema(reflect.TypeOf(s.answer)).(map[string]any)
	}
	return map[string]any{
		"operationId": s.id, "summary": s.summary, "parameters": parameters, roleKey: need,
		"responses": map[string]any{
			"200":     map[string]any{"description": "A stream, until the client disconnects or a limit is reached", "content": map[string]any{s.content: map[string]any{"schema": body}}},
			"default": map[string]any{"$ref": "#/components/responses/error"},
		},
	}
}

// schema returns the JSON Schema of an answer.
func schema(t reflect.Type) any {
	switch t.Kind() {
	case reflect.Pointer:
		return schema(t.Elem())
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": schema(t.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.String:
		return map[string]any{"type": "string"}
	}
	if t == reflect.TypeFor[time.Time]() {
		return map[string]any{"type": "string", "format": "date-time"}
	}
	if strings.HasSuffix(t.PkgPath(), "/config") && t != reflect.TypeFor[config.FieldChange]() {
		return config.PartSchema(reflect.New(t).Elem().Interface())
	}
	properties := map[string]any{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		properties[name] = schema(t.Field(i).Type)
	}
	return map[string]any{"type": "object", "properties": properties}
}
