"""What tracing by Dynamo and AOTAutograd needs: random numbers, memory formats."""
