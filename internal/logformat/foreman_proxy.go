package logformat

import "bytes"

const (
	proxyTime = iota
	proxyID
	proxyMethod
	proxyPath
	proxyStatus
	proxyDuration
	proxyFields
)

// foremanProxy returns the format of the Smart Proxy's proxy.log (lib/proxy/log.rb of
// theforeman/smart-proxy 3.12, LoggerMiddleware; file_logging_pattern "%d %.8X{request} [%.1l]
// %m"). Each Finished line is a request. Its time is that of the response, in the server's
// time zone.
func foremanProxy() *Format {
	return &Format{Name: "foreman-proxy's proxy.log", Source: "its line Finished of each request", TimeIsEnd: true, NoZone: true, scan: scanProxy, Fields: []Field{
		proxyTime: {Name: FieldTime, Kind: Time, Layout: ISO}, proxyID: {Name: "request_id"}, proxyMethod: {Name: FieldMethod}, proxyPath: {Name: FieldURL, Kind: URL},
		proxyStatus: {Name: FieldStatus, Kind: Number}, proxyDuration: {Name: FieldDuration, Source: "the time of Finished", Kind: Duration, Unit: 1e6},
	}}
}

// scanProxy splits "2026-11-27T09:38:25 1f0a2b3c [I] Finished GET /features
// with 200 (1.62 ms)".
func scanProxy(line []byte, spans []Span) LineKind {
	clear(spans)
	if !looksTimed(line) {
		return BadLine
	}
	spans[proxyTime] = span(0, 19)
	id := bytes.IndexByte(line, ' ') + 1
	level := bytes.Index(line[:min(len(line), 80)], []byte(" ["))
	if id < 20 || level < id-1 || len(line) < level+len(" [I] ") || line[level+3] != ']' || line[level+4] != ' ' {
		return BadLine
	}
	spans[proxyID] = span(id, max(id, level))
	at := level + len(" [I] ")
	const finished = "Finished "
	if !bytes.HasPrefix(line[at:], []byte(finished)) {
		return OtherLine
	}
	at += len(finished)
	method := word(line[at:])
	took := bytes.LastIndex(line, []byte(" ("))
	with := bytes.LastIndex(line[:max(took, 0)], []byte(" with "))
	if method == 0 || with < at+method || !bytes.HasSuffix(line, []byte(" ms)")) {
		return BadLine
	}
	spans[proxyMethod] = span(at, at+method)
	spans[proxyPath] = span(min(at+method+1, with), with)
	spans[proxyStatus] = span(with+len(" with "), took)
	spans[proxyDuration] = span(took+len(" ("), len(line)-len(" ms)"))
	if !status3(spans[proxyStatus].Of(line)) {
		return BadLine
	}
	return RequestLine
}

// word returns the length of the method before a blank, or 0 if none exists.
func word(text []byte) int {
	n := bytes.IndexByte(text[:min(len(text), 21)], ' ')
	if n > 0 && isMethod(string(text[:n])) {
		return n
	}
	return 0
}

func status3(text []byte) bool {
	n, ok := Int(text)
	return ok && len(text) == 3 && n >= 100
}

// puma returns the format of the access logs of Puma 5.6 (--log-requests; Puma::CommonLogger)
// and Rack::CommonLogger. It is the common log with the duration in seconds, with four
// decimals. A line is written after the response.
func puma() (*Format, error) {
	f, err := Nginx(`$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time`)
	if err == nil {
		f.Name = "Puma's access log"
		f.Fields[f.Field(FieldDuration)].Source = "the time at the end"
	}
	return f, err
}

// fourDigits checks that seconds have four decimals, as Rack writes them. nginx writes three.
func fourDigits(rows []row) verdict {
	for _, r := range rows {
		text := r.text(FieldDuration)
		if n := len(text); n < 6 || text[n-5] != '.' {
			return against
		}
	}
	return proven
}
