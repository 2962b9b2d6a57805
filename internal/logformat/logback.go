package logformat

import "strings"

// puppetServer is the pattern in Puppet Server's request-logging.xml
// (puppetserver 6 to 8; documentation/config_file_logbackxml.md).
const puppetServer = `%h %l %u [%t] "%r" %s %b "%i{Referer}" "%i{User-Agent}" %D %i{Content-Length} %mdc{jruby.borrow-time:--}`

// puppetDB is the pattern in PuppetDB's request-logging.xml (puppetdb 7 and 8).
const puppetDB = `%h %l %u [%t] "%r" %s %b "%i{Referer}" "%i{User-Agent}" %D %header{X-Uncompressed-Length}`

// logbackWords maps the conversion words of logback-access' PatternLayout with a single value
// to fields ("Logback-access", layouts). %D is in milliseconds, unlike Apache's.
var logbackWords = map[string]Field{
	"h": {Name: FieldClient, Kind: Address, Names: true}, "clientHost": {Name: FieldClient, Kind: Address, Names: true}, "remoteIP": {Name: FieldClient, Kind: Address}, "a": {Name: FieldClient, Kind: Address}, "l": {Name: "ident", Kind: Ident}, "u": {Name: FieldUser}, "user": {Name: FieldUser},
	"t": {Name: FieldTime, Kind: Time}, "date": {Name: FieldTime, Kind: Time}, "r": {Name: FieldRequest, Kind: Request}, "requestURL": {Name: FieldRequest, Kind: Request},
	"s": {Name: FieldStatus, Kind: Number}, "statusCode": {Name: FieldStatus, Kind: Number}, "b": {Name: FieldBytes, Kind: Number}, "B": {Name: FieldBytes, Kind: Number}, "bytesSent": {Name: FieldBytes, Kind: Number},
	"D": {Name: FieldDuration, Kind: Duration, Unit: 1e6, Digits: true}, "elapsedTime": {Name: FieldDuration, Kind: Duration, Unit: 1e6, Digits: true}, "T": {Name: FieldDuration, Kind: Duration, Unit: 1e9, Digits: true}, "elapsedSeconds": {Name: FieldDuration, Kind: Duration, Unit: 1e9, Digits: true},
	"m": {Name: FieldMethod}, "requestMethod": {Name: FieldMethod}, "U": {Name: FieldPath}, "requestURI": {Name: FieldPath}, "q": {Name: FieldQuery}, "queryString": {Name: FieldQuery}, "H": {Name: FieldProtocol}, "protocol": {Name: FieldProtocol},
	"v": {Name: FieldHost}, "server": {Name: FieldHost}, "p": {Name: "port", Kind: Number}, "localPort": {Name: "port", Kind: Number}, "A": {Name: "server_address"}, "localIPAddress": {Name: "server_address"}, "threadName": {Name: "thread"}, "I": {Name: "thread"}, "S": {Name: "session"}, "sessionID": {Name: "session"},
}

// Logback compiles a pattern of logback-access.
func Logback(text string) (*Format, error) {
	const what = "pattern"
	switch text {
	case "common", "clf":
		text = `%h %l %u [%t] "%r" %s %b`
	case "combined":
		text = `%h %l %u [%t] "%r" %s %b "%i{Referer}" "%i{User-Agent}"`
	}
	var pieces []piece
	for i := 0; i < len(text); {
		if text[i] == '\\' && i+1 < len(text) {
			pieces, i = append(pieces, piece{lit: text[i+1 : i+2], at: i}), i+2
			continue
		}
		if text[i] != '%' {
			pieces, i = append(pieces, piece{lit: text[i : i+1], at: i}), i+1
			continue
		}
		n := i + 1
		for n < len(text) && (text[n] == '-' || text[n] == '.' || text[n] >= '0' && text[n] <= '9') {
			n++ // skip minimum and maximum width
		}
		from := n
		for n < len(text) && (text[n] >= 'a' && text[n] <= 'z' || text[n] >= 'A' && text[n] <= 'Z') {
			n++
		}
		word, argument := text[from:n], ""
		if n < len(text) && text[n] == '{' {
			end := strings.IndexByte(text[n:], '}')
			if end < 0 {
				return nil, formatError(what, text, i, "{ is not closed")
			}
			argument, n = text[n+1:n+end], n+end+1
		}
		if (word == "t" || word == "date") && argument != "" {
			p, zone := strings.Trim(argument, `"`), ""
			if before, after, ok := strings.Cut(p, `", "`); ok { // %t{"pattern", "zone"}
				p, zone = before, after
			} else if before, after, ok := strings.Cut(p, ", "); ok {
				p, zone = before, after
			}
			when, ok := javaDate(p)
			if !ok {
				return nil, formatError(what, text, i, "dates may have the letters y, M, d, H, h, m, s, S, a, E, Z and X")
			}
			field := Field{Name: FieldTime, Kind: Time, Source: text[i:n]}
			field.asTime(&when)
			if zone == "UTC" || zone == "GMT" {
				when.has |= hasZone // the pattern specifies the zone, which the lines lack
			}
			pieces, i = append(pieces, piece{field: &field, at: i}), n
			continue
		}
		if word == "n" {
			i = n // the end of the line
			continue
		}
		field, ok := logbackWords[word]
		switch word {
		case "i", "header":
			switch strings.ToLower(argument) {
			case "referer":
				field = Field{Name: "referer"}
			case "user-agent":
				field = Field{Name: "user_agent"}
			case "content-length", "x-uncompressed-length":
				field = Field{Name: name("in", argument), Kind: Number}
			default:
				field = Field{Name: name("in", argument)}
			}
			ok = true
		case "responseHeader", "o":
			field, ok = Field{Name: name("out", argument)}, true
		case "reqAttribute", "reqParameter", "cookie", "c":
			field, ok = Field{Name: name(word, argument)}, true
		case "mdc":
			key, _, _ := strings.Cut(argument, ":")
			field, ok = Field{Name: name(key)}, true
			if key == "jruby.borrow-time" {
				// Waiting time for a JRuby instance; empty or - without waiting.
				field = Field{Name: "jruby_borrow_time", Kind: Number}
			}
		}
		if !ok {
			return nil, formatError(what, text, i, "unknown logback-access conversion word")
		}
		field.Source = text[i:n]
		pieces, i = append(pieces, piece{field: &field, at: i}), n
	}
	return compile(&Format{Name: "logback-access", TimeIsEnd: true}, what, text, pieces)
}

// javaLetters maps letters of Java date patterns (SimpleDateFormat) to strftime letters. ":"
// means a zone such as +01:00.
var javaLetters = map[string]byte{
	"yyyy": 'Y', "yy": 'y', "uuuu": 'Y', "MM": 'm', "MMM": 'b', "MMMM": 'B', "dd": 'd', "HH": 'H', "hh": 'I', "mm": 'M', "ss": 'S', "SSS": 'f', "SSSSSS": 'F', "a": 'p', "E": 'a', "EEE": 'a', "EEEE": 'A',
	"Z": 'z', "XX": 'z', "XXX": ':', "z": 'Z',
}

// javaDate parses a Java date pattern, or logback's ISO8601.
func javaDate(text string) (p pattern, ok bool) {
	if text == "ISO8601" {
		text = "yyyy-MM-dd HH:mm:ss,SSS"
	}
	for i := 0; i < len(text); {
		c := text[i]
		n := i + 1
		switch {
		case c == '\'':
			end := strings.IndexByte(text[n:], '\'')
			if end < 0 {
				return p, false
			}
			lit := text[n : n+end]
			if lit == "" { // two quotes mean one quote
				lit = "'"
			}
			p.add(item{lit: lit})
			n += end + 1
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			for n < len(text) && text[n] == c {
				n++
			}
			letter, is := javaLetters[text[i:n]]
			if !is {
				return p, false
			}
			p.add(item{letter: letter})
		default:
			p.add(item{lit: text[i:n]})
		}
		i = n
	}
	return p, true
}
