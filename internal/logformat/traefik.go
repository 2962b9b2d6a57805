package logformat

import "strings"

// traefikCommon is Traefik's accessLog in the format common (doc.traefik.io, "Access
// logs", Common Log Format): the number behind the user agent counts requests since Traefik
// began. It escapes nothing in quotes; the time is that of the request's beginning.
const traefikCommon = `{client} - {user} [{time}] "{request}" {status} {bytes} "{referer}" "{user_agent}" {request_count} "{router}" "{server}" {duration}ms`

// traefikFields are the fields of traefikCommon that are more than text.
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
