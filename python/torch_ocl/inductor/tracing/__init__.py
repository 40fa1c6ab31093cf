"""Changes to tracing by Dynamo and AOTAutograd: random numbers, memory formats, types of out=."""
