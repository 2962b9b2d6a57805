package logformat

// alb returns the format of the access log of an Application Load Balancer (AWS documentation,
// Elastic Load Balancing, "Access log entries"). Durations are in seconds; the time is the
// response's. A request's duration is the sum of the three processing times; -1 means that a
// phase was not reached.
func alb() (*Format, error) {
	quoted := func(name string) Field { return Field{Name: name, Escape: Backslash} }
	seconds := func(name, asked string) Field {
		return Field{Name: name, Source: asked, Kind: Duration, Unit: 1e9}
	}
	return columnar(&Format{Name: "the access log of an AWS Application Load Balancer", Source: "AWS, \"Access log entries\"", TimeIsEnd: true}, 17, []Field{
		{Name: "type", Kind: Host}, {Name: FieldTime, Kind: Time, Layout: ISO}, {Name: "elb", Kind: Word}, {Name: FieldClient, Kind: Address}, {Name: "target", Kind: Address},
		seconds("wait_request", "request_processing_time"), seconds("wait_target", "target_processing_time"), seconds("wait_response", "response_processing_time"),
		{Name: FieldStatus, Kind: Number}, {Name: "target_status", Kind: Number}, {Name: "bytes_in", Kind: Number}, {Name: FieldBytes, Kind: Number},
		{Name: FieldRequest, Kind: Request, Escape: Backslash}, quoted("user_agent"), {Name: "tls_cipher"}, {Name: "tls_version"}, {Name: "target_group"}, quoted("trace_id"),
		quoted(FieldHost), quoted("certificate"), {Name: "rule_priority"}, {Name: "request_created"}, quoted("actions"), quoted("redirect_url"), quoted("error_reason"),
		quoted("target_list"), quoted("target_status_list"), quoted("classification"), quoted("classification_reason"), {Name: "connection_trace_id"},
	}, Field{Name: FieldDuration, Source: "request_processing_time + target_processing_time + response_processing_time", Kind: Duration, Unit: 1e9, List: true, Sum: true}, "wait_request", "wait_response"), nil
}

// elb returns the format of the access log of a Classic Load Balancer (AWS documentation,
// Elastic Load Balancing, "Access logs for your Classic Load Balancer"). The time is the
// request's, durations are in seconds. Connections of a TCP listener have no status and method.
func elb() (*Format, error) {
	seconds := func(name, asked string) Field {
		return Field{Name: name, Source: asked, Kind: Duration, Unit: 1e9}
	}
	f := columnar(&Format{Name: "the access log of an AWS Classic Load Balancer", Source: "AWS, \"Access logs for your Classic Load Balancer\""}, 12, []Field{
		{Name: FieldTime, Kind: Time, Layout: ISO}, {Name: "elb", Kind: Word}, {Name: FieldClient, Kind: Address}, {Name: "target", Kind: Address},
		seconds("wait_request", "request_processing_time"), seconds("wait_target", "backend_processing_time"), seconds("wait_response", "response_processing_time"),
		{Name: FieldStatus, Kind: Number}, {Name: "target_status", Kind: Number}, {Name: "bytes_in", Kind: Number}, {Name: FieldBytes, Kind: Number},
		{Name: FieldRequest, Kind: Request, Escape: Backslash}, {Name: "user_agent", Escape: Backslash}, {Name: "tls_cipher"}, {Name: "tls_version"},
	}, Field{Name: FieldDuration, Source: "request_processing_time + backend_processing_time + response_processing_time", Kind: Duration, Unit: 1e9, List: true, Sum: true}, "wait_request", "wait_response")
	f.absent = []int{f.Field(FieldStatus), f.Field("target_status")}
	return f, nil
}

// nlb returns the format of the access log for TLS connections of a Network Load Balancer (AWS
// documentation, "Access logs for your Network Load Balancer"). The time is the end of the
// connection in UTC, durations are in milliseconds.
func nlb() (*Format, error) {
	return columnar(&Format{Name: "the access log of an AWS Network Load Balancer", Source: "AWS, \"Access logs for your Network Load Balancer\"", TimeIsEnd: true}, 14, []Field{
		{Name: "type", Kind: Host}, {Name: "version", Kind: Word}, {Name: FieldTime, Kind: Time, Layout: ISO}, {Name: "elb", Kind: Word}, {Name: "listener", Kind: Word},
		{Name: FieldClient, Kind: Address}, {Name: "target", Kind: Address},
		{Name: FieldDuration, Source: "connection_time", Kind: Duration, Unit: 1e6}, {Name: "wait_handshake", Source: "tls_handshake_time", Kind: Duration, Unit: 1e6},
		{Name: "bytes_in", Kind: Number}, {Name: FieldBytes, Kind: Number}, {Name: "tls_alert"}, {Name: "certificate"}, {Name: "certificate_serial"}, {Name: "tls_cipher"}, {Name: "tls_version"},
		{Name: "tls_named_group"}, {Name: FieldHost}, {Name: "alpn_client"}, {Name: "alpn_target"}, {Name: "alpn_offered", Escape: Backslash}, {Name: "connection_created"},
	}, Field{}, "", ""), nil
}
