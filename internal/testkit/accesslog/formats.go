package accesslog

import (
	"fmt"
	"time"
)

func combined(b []byte, r *request) []byte {
	return fmt.Appendf(b, `%s - - [%s] "%s %s HTTP/1.1" %d %d %q %q %d`, r.client, r.end.Add(-r.took).Format("02/Jan/2006:15:04:05 -0700"),
		r.method, r.url, r.status, r.size, dash(referers[r.referer]), agents[r.agent], r.took.Microseconds())
}

// haproxy has the fields of HAProxy 3.0's option httplog without captured headers.
func haproxy(b []byte, r *request) []byte {
	total := r.took.Milliseconds()
	connect := min(total, int64(r.rand.IntN(3)))
	server := r.rand.IntN(4) + 1
	return fmt.Appendf(b, `%s:%d [%s] https~ web/web%d %d/0/%d/%d/%d %d %d - - ---- %d/%d/%d/%d/0 0/0 "%s %s HTTP/1.1"`, r.client, r.port, r.end.Add(-r.took).Format("02/Jan/2006:15:04:05.000"),
		server, r.rand.IntN(2), connect, total-connect, total, r.status, r.size, 200+r.rand.IntN(50), 190+r.rand.IntN(10), 20+r.rand.IntN(9), 4+r.rand.IntN(5), r.method, r.url)
}

// caddy has the members of Caddy 2.11's access log.
func caddy(b []byte, r *request) []byte {
	end := float64(r.end.UnixMicro()) / 1e6
	b = fmt.Appendf(b, `{"level":"info","ts":%.6f,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"%s","remote_port":"%d","client_ip":"%s","proto":"HTTP/2.0","method":"%s","host":"%s","uri":"%s","headers":{`,
		end, r.client, r.port, r.client, r.method, r.host, r.url)
	headers := []string{`"Accept":["*/*"]`, `"Accept-Encoding":["gzip, deflate, br"]`, `"Accept-Language":["en-US,en;q=0.9"]`, `"User-Agent":["` + agents[r.agent] + `"]`}
	if from := referers[r.referer]; from != "" {
		headers = append(headers, `"Referer":["`+from+`"]`)
	}
	r.rand.Shuffle(len(headers), func(i, j int) { headers[i], headers[j] = headers[j], headers[i] })
	for i, h := range headers {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, h...)
	}
	return fmt.Appendf(b, `},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"%s"}},"bytes_read":0,"user_id":"","duration":%.9f,"size":%d,"status":%d,"resp_headers":{"Server":["Caddy"],"Alt-Svc":["h3=\":443\"; ma=2592000"],"Content-Type":["text/html; charset=utf-8"],"Etag":["\"%x\""]}}`,
		r.host, r.took.Seconds(), r.size, r.status, r.size)
}

// nginx has variables that are usual in log_format escape=json.
func nginx(b []byte, r *request) []byte { return nginxJSON(b, r, agents[r.agent]) }

// nginxEscapes has user agents with quotes and backslashes.
func nginxEscapes(b []byte, r *request) []byte {
	return nginxJSON(b, r, fmt.Sprintf(`Client \"%d\" (C:\\Programs\\client) \"beta\"`, r.agent))
}

func nginxJSON(b []byte, r *request, agent string) []byte {
	return fmt.Appendf(b, `{"time_iso8601":"%s","msec":"%d.%03d","remote_addr":"%s","remote_user":"","request_method":"%s","request_uri":"%s","server_protocol":"HTTP/1.1","status":%d,"body_bytes_sent":%d,"request_time":%.3f,"upstream_response_time":"%.3f","http_host":"%s","http_referer":"%s","http_user_agent":"%s"}`,
		r.end.Format("2006-01-02T15:04:05-07:00"), r.end.Unix(), r.end.Nanosecond()/1e6, r.client, r.method, r.url, r.status, r.size, r.took.Seconds(), r.took.Seconds(), r.host, referers[r.referer], agent)
}

// traefik has the members of Traefik 3.2's access log. Traefik escapes & as encoding/json does.
func traefik(b []byte, r *request) []byte {
	begin := r.end.Add(-r.took)
	overhead := time.Duration(r.rand.IntN(100_000)) + 20_000
	return fmt.Appendf(b, `{"ClientAddr":"%s:%d","ClientHost":"%s","ClientPort":"%d","ClientUsername":"-","DownstreamContentSize":%d,"DownstreamStatus":%d,"Duration":%d,"OriginContentSize":%d,"OriginDuration":%d,"OriginStatus":%d,"Overhead":%d,"RequestAddr":"%s","RequestContentSize":0,"RequestCount":%d,"RequestHost":"%s","RequestMethod":"%s","RequestPath":%s,"RequestPort":"-","RequestProtocol":"HTTP/2.0","RequestScheme":"https","RetryAttempts":0,"RouterName":"web@docker","ServiceAddr":"10.0.0.2:80","ServiceName":"web@docker","ServiceURL":"http://10.0.0.2:80","StartLocal":"%s","StartUTC":"%s","entryPointName":"websecure","level":"info","msg":"","request_User-Agent":%s,"time":"%s"}`,
		r.client, r.port, r.client, r.port, r.size, r.status, r.took+overhead, r.size, r.took, r.status, overhead, r.host, r.number, r.host, r.method, quoted(r.url),
		begin.Format(time.RFC3339Nano), begin.Format(time.RFC3339Nano), quoted(agents[r.agent]), r.end.Format(time.RFC3339))
}

// envoy has the members of Istio 1.24's access log.
func envoy(b []byte, r *request) []byte {
	return fmt.Appendf(b, `{"authority":"%s","bytes_received":0,"bytes_sent":%d,"connection_termination_details":null,"downstream_local_address":"10.44.2.15:8080","downstream_remote_address":"%s:%d","duration":%d,"method":"%s","path":"%s","protocol":"HTTP/1.1","request_id":"%08x-3a6b-4c64-a8d1-%012x","requested_server_name":null,"response_code":%d,"response_code_details":"via_upstream","response_flags":"-","route_name":"default","start_time":"%s","upstream_cluster":"outbound|8080||web.default.svc.cluster.local","upstream_host":"10.44.2.%d:8080","upstream_local_address":"10.44.2.15:%d","upstream_service_time":"%d","upstream_transport_failure_reason":null,"user_agent":"%s","x_forwarded_for":null}`,
		r.host, r.size, r.client, r.port, r.took.Milliseconds(), r.method, r.url, r.rand.Uint32(), r.number, r.status, r.end.Add(-r.took).Format("2006-01-02T15:04:05.000Z"),
		16+r.rand.IntN(4), 30_000+r.rand.IntN(200), r.took.Milliseconds(), agents[r.agent])
}
