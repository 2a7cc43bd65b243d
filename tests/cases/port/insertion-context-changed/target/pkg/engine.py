def run(job):
    prepare(job)
    with stream(job):
        submit(job)
    report(job)
