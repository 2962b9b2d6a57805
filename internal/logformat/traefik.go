package logformat

import "strings"

// traefikCommon is Traefik's accessLog in the format common (doc.traefik.io, "Access
// logs", Common Log Format). The number after the user agent counts requests since
// Traefik's start. Quotes are not escaped; the time is the start of the request.
const traefikCommon = `{client} - {user} [{time}] "{request}" {status} {bytes} "{referer}" "{user_agent}" {request_count} "{router}" "{server}" {duration}ms`

// traefikFields are the fields of traefikCommon other than plain text.
var traefikFields = map[string]Field{
	FieldClient: {Kind: Address}, FieldTime: {Kind: Time}, FieldRequest: {Kind: Request}, FieldStatus: {Kind: Number}, FieldBytes: {Kind: Number},
	"request_count": {Kind: Number}, FieldDuration: {Kind: Duration, Unit: 1e6, Source: "the last field"},
}

func traefik() (*Format, error) {
	var pieces []piece
	for rest := traefikCommon; rest != ""; {
		lit, after, ok := strings.Cut(rest, "{")
		pieces = append(pieces, piece{lit: lit})
		if !ok {
			break
		}
		name, after, _ := strings.Cut(after, "}")
		field := traefikFields[name]
		field.Name = name
		pieces, rest = append(pieces, piece{field: &field}), after
	}
	return compile(&Format{Name: "Traefik's common log"}, "accessLog", traefikCommon, pieces)
}
